#include "kernels/cuda/codes/scan_input.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/codes/common/scan_params.h"
#include "kernels/cuda/codes/fragments.h"
#include "kernels/plan/select.h"

namespace maxsim::cuda {
namespace {

// Adds an array to `bytes`, and returns where it begins.
template <class T>
size_t Add(const std::vector<T>& values, std::vector<uint8_t>& bytes) {
  constexpr auto kAlignment = static_cast<size_t>(kScanInputAlignment);
  const size_t begin = (bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
  bytes.resize(begin + values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data() + begin, values.data(), values.size() * sizeof(T));
  return begin;
}

// Plans the selection of one more query.
void AddSelection(int64_t num_candidates, int64_t k, int64_t num_large, const DeviceLimits& limits, ScanInput& input) {
  const SelectPlan plan = PlanSelect(num_candidates, k, num_large, limits);
  input.selections.push_back({input.num_queries() * input.scores_stride, num_candidates, input.num_results,
                              input.num_keys, static_cast<int32_t>(k), plan.splits, plan.buckets, plan.list_keys});
  input.num_results += k;
  input.num_keys += plan.keys();
  input.most_splits = std::max(input.most_splits, plan.splits);
  input.most_rank_blocks = std::max(input.most_rank_blocks, plan.rank_blocks);
}

}  // namespace

ScanInput MakeScanInput(absl::Span<const ScanQuery> queries, absl::Span<const size_t> members, const DeviceMasks& masks,
                        int64_t num_candidates, const DeviceLimits& limits) {
  ScanInput input;
  input.scores_stride = (num_candidates + kSelectAlignment - 1) / kSelectAlignment * kSelectAlignment;
  input.large = num_candidates > kRankAllCandidates;
  std::vector<const QueryCodes*> codes;
  std::vector<ScanQueryParams> params;
  for (const size_t member : members) {
    const ScanQuery& query = queries[member];
    const auto mask = masks.find(query.mask);
    codes.push_back(query.codes);
    params.push_back({query.codes->unit, query.codes->reach, query.codes->slack,
                      mask == masks.end() ? nullptr : mask->second, input.num_queries() * input.scores_stride,
                      query.order == ScanOrder::kUpperBound ? 1 : 0});
    AddSelection(num_candidates, std::min<int64_t>(query.num_results, num_candidates),
                 input.large ? static_cast<int64_t>(members.size()) : 1, limits, input);
    input.query_tiles.push_back(RowTiles(*query.codes));
  }
  const PackedQueries packed = PackQueries(codes);
  input.num_row_tiles = packed.num_row_tiles();
  input.fragments_at = Add(packed.fragments, input.bytes);
  input.rows_at = Add(packed.rows, input.bytes);
  input.tile_queries_at = Add(packed.tile_queries, input.bytes);
  input.queries_at = Add(params, input.bytes);
  input.selections_at = Add(input.selections, input.bytes);
  return input;
}

}  // namespace maxsim::cuda
