#include "kernels/cuda/codes/cuda_code_scanner.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/codes/fragments.h"
#include "kernels/cuda/codes/scan_launch.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/cuda/select/topk_launch.h"
#include "kernels/plan/select.h"

namespace maxsim::cuda {
namespace {

static_assert(sizeof(Scored) == sizeof(DeviceScored));

// Arrays that one copy brings to the device.
class InputLayout {
 public:
  // Adds an array, and returns where it begins.
  template <class T>
  size_t Add(const std::vector<T>& values) {
    const size_t begin = (bytes_.size() + kAlignment - 1) / kAlignment * kAlignment;
    bytes_.resize(begin + values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes_.data() + begin, values.data(), values.size() * sizeof(T));
    return begin;
  }

  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  static constexpr size_t kAlignment = 256;
  std::vector<uint8_t> bytes_;
};

template <class T>
const T* ArrayAt(const DeviceBuffer& buffer, size_t begin) {
  return reinterpret_cast<const T*>(buffer.as<uint8_t>() + begin);
}

// Returns the elements of `queries` that a scan may take together with element `first`: those over the same candidates,
// of the same number of planes, and as many as `max_scores` scores allow.
std::vector<size_t> MembersOf(absl::Span<const ScanQuery> queries, size_t first, int64_t num_candidates,
                              int64_t max_scores, std::vector<bool>& taken) {
  std::vector<size_t> members;
  int64_t num_scores = 0;
  for (size_t i = first; i < queries.size(); ++i) {
    const bool same = queries[i].ordinals == queries[first].ordinals &&
                      (queries[i].ordinals == nullptr || queries[i].num_candidates == num_candidates) &&
                      queries[i].codes->planes == queries[first].codes->planes;
    if (taken[i] || !same || (!members.empty() && num_scores + num_candidates > max_scores)) continue;
    taken[i] = true;
    members.push_back(i);
    num_scores += num_candidates;
  }
  return members;
}

}  // namespace

absl::StatusOr<CudaCodeScanner> CudaCodeScanner::Create(Device& device, int64_t max_scores) {
  const CurrentDevice current(device.ordinal);
  MAXSIM_RETURN_IF_ERROR(current.status());
  CudaCodeScanner scanner(device);
  scanner.max_scores_ = max_scores;
  MAXSIM_ASSIGN_OR_RETURN(scanner.stream_, Stream::Create());
  for (Event* event : {&scanner.begin_, &scanner.scanned_, &scanner.end_}) {
    MAXSIM_ASSIGN_OR_RETURN(*event, Event::Create(Event::Use::kTime));
  }
  return scanner;
}

absl::Status CudaCodeScanner::Grow(DeviceBuffer& buffer, size_t bytes) {
  if (buffer.bytes() >= bytes) return absl::OkStatus();
  buffer = DeviceBuffer();
  MAXSIM_ASSIGN_OR_RETURN(buffer, DeviceBuffer::Allocate(bytes, "a scan of codes"));
  return absl::OkStatus();
}

absl::Status CudaCodeScanner::Scan(const CudaCodes& codes, absl::Span<const ScanQuery> queries,
                                   absl::Span<std::vector<Scored>> results) {
  if (&codes.device() != device_) {
    return absl::InvalidArgumentError(
        absl::StrCat("codes are on device ", codes.device().ordinal, "; must be on the scanner's, ", device_->ordinal));
  }
  const CodeAvailability available{.shape = codes.shape(),
                                   .planes = codes.planes(),
                                   .num_documents = codes.num_documents(),
                                   .has_bounds = {codes.has_bounds(1), codes.has_bounds(2), codes.has_bounds(4)}};
  MAXSIM_RETURN_IF_ERROR(ValidateScan(available, queries, results.size()));
  MAXSIM_RETURN_IF_ERROR(device_->health.Get());
  return device_->health.Note(ScanOnDevice(codes, queries, results));
}

absl::Status CudaCodeScanner::ScanOnDevice(const CudaCodes& codes, absl::Span<const ScanQuery> queries,
                                           absl::Span<std::vector<Scored>> results) {
  const CurrentDevice current(device_->ordinal);
  MAXSIM_RETURN_IF_ERROR(current.status());
  scan_seconds_ = select_seconds_ = 0;
  try {
    std::vector<bool> taken(queries.size());
    for (size_t i = 0; i < queries.size(); ++i) {
      if (taken[i]) continue;
      const int64_t num_candidates = queries[i].ordinals == nullptr ? codes.num_documents() : queries[i].num_candidates;
      const std::vector<size_t> members = MembersOf(queries, i, num_candidates, max_scores_, taken);
      if (num_candidates == 0) {
        for (const size_t member : members) results[member].clear();
        continue;
      }
      MAXSIM_RETURN_IF_ERROR(ScanTogether(codes, queries, members, results));
    }
    return absl::OkStatus();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("no host memory for the scan's workspace");
  }
}

absl::Status CudaCodeScanner::ScanTogether(const CudaCodes& codes, absl::Span<const ScanQuery> queries,
                                           absl::Span<const size_t> members, absl::Span<std::vector<Scored>> results) {
  const ScanQuery& first = queries[members[0]];
  const int planes = first.codes->planes;
  const int64_t num_candidates = first.ordinals == nullptr ? codes.num_documents() : first.num_candidates;
  const auto num_queries = static_cast<int32_t>(members.size());
  const int64_t stride = (num_candidates + kSelectAlignment - 1) / kSelectAlignment * kSelectAlignment;
  const cudaStream_t stream = stream_.get();

  // Masks, each once.
  const size_t mask_bytes = (static_cast<size_t>(codes.num_documents()) + 63) / 64 * sizeof(uint64_t);
  absl::flat_hash_map<const uint64_t*, size_t> masks;
  for (const size_t member : members) {
    if (queries[member].mask != nullptr) masks.try_emplace(queries[member].mask, masks.size());
  }
  MAXSIM_RETURN_IF_ERROR(Grow(masks_, masks.size() * mask_bytes));
  // Copies use these until the CUDA stream has been waited for, also after an error.
  InputLayout layout;
  std::vector<Scored> all;
  FinishOnError finish(stream);
  for (const auto& [mask, idx] : masks) {
    MAXSIM_RETURN_IF_CUDA_ERROR(
        cudaMemcpyAsync(masks_.as<uint8_t>() + idx * mask_bytes, mask, mask_bytes, cudaMemcpyHostToDevice, stream));
  }
  if (first.ordinals != nullptr) {
    const size_t bytes = static_cast<size_t>(num_candidates) * sizeof(uint32_t);
    MAXSIM_RETURN_IF_ERROR(Grow(ordinals_, bytes));
    MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(ordinals_.as(), first.ordinals, bytes, cudaMemcpyHostToDevice, stream));
  }

  // Queries and their selections.
  std::vector<const QueryCodes*> codes_of;
  std::vector<ScanQueryParams> query_params;
  std::vector<SelectQuery> selections;
  SelectCall select{};
  int64_t num_results = 0, num_keys = 0;
  const bool large = num_candidates > kRankAllCandidates;
  for (size_t i = 0; i < members.size(); ++i) {
    const ScanQuery& query = queries[members[i]];
    codes_of.push_back(query.codes);
    const int64_t scores_offset = static_cast<int64_t>(i) * stride;
    query_params.push_back({query.codes->unit, query.codes->reach, query.codes->slack,
                            query.mask == nullptr ? nullptr : ArrayAt<uint64_t>(masks_, masks[query.mask] * mask_bytes),
                            scores_offset, query.order == ScanOrder::kUpperBound ? 1 : 0});
    const int64_t k = std::min<int64_t>(query.num_results, num_candidates);
    const SelectPlan plan = PlanSelect(num_candidates, k, large ? num_queries : 1, device_->limits);
    selections.push_back({scores_offset, num_candidates, num_results, num_keys, static_cast<int32_t>(k), plan.splits,
                          plan.buckets, plan.list_keys});
    num_results += k;
    num_keys += plan.keys();
    select.most_splits = std::max(select.most_splits, plan.splits);
    select.most_rank_blocks = std::max(select.most_rank_blocks, plan.rank_blocks);
  }
  const PackedQueries packed = PackQueries(codes_of);
  const size_t fragments_at = layout.Add(packed.fragments), rows_at = layout.Add(packed.rows),
               tiles_at = layout.Add(packed.tile_queries), queries_at = layout.Add(query_params),
               selections_at = layout.Add(selections);
  MAXSIM_RETURN_IF_ERROR(Grow(input_, layout.bytes().size()));
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(input_.as(), layout.bytes().data(), layout.bytes().size(), cudaMemcpyHostToDevice, stream));
  MAXSIM_RETURN_IF_ERROR(Grow(scores_, static_cast<size_t>(stride) * members.size() * sizeof(float)));
  MAXSIM_RETURN_IF_ERROR(Grow(results_, static_cast<size_t>(num_results) * sizeof(DeviceScored)));
  MAXSIM_RETURN_IF_ERROR(Grow(keys_, static_cast<size_t>(num_keys) * sizeof(uint64_t)));
  const size_t workspace_bytes = large ? members.size() * sizeof(SelectWorkspace) : 0;
  if (workspaces_.bytes() < workspace_bytes) {
    // A new workspace must be zero. Each selection leaves it zeroed.
    DeviceBuffer zeroed;
    MAXSIM_RETURN_IF_ERROR(Grow(zeroed, workspace_bytes));
    MAXSIM_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(zeroed.as(), 0, workspace_bytes, stream));
    workspaces_ = std::move(zeroed);
  }

  const ScanParams params{.codes = codes.ParamsFor(planes),
                          .ordinals = first.ordinals == nullptr ? nullptr : ordinals_.as<uint32_t>(),
                          .fragments = ArrayAt<uint4>(input_, fragments_at),
                          .rows = ArrayAt<ScanRow>(input_, rows_at),
                          .queries = ArrayAt<ScanQueryParams>(input_, queries_at),
                          .tile_queries = ArrayAt<int32_t>(input_, tiles_at),
                          .scores = scores_.as<float>(),
                          .num_candidates = num_candidates,
                          .num_queries = num_queries,
                          .num_row_tiles = packed.num_row_tiles(),
                          .dim = codes.shape().dim};
  MAXSIM_RETURN_IF_ERROR(begin_.Record(stream));
  const bool one = IsScanOfOne(codes.shape(), num_queries, packed.num_row_tiles());
  MAXSIM_RETURN_IF_CUDA_ERROR((one ? LaunchScanOne : LaunchScanMany)(params, planes, device_->limits.num_sms, stream));
  MAXSIM_RETURN_IF_ERROR(scanned_.Record(stream));
  select.queries = ArrayAt<SelectQuery>(input_, selections_at);
  select.scores = scores_.as<float>();
  select.workspaces = workspaces_.as<SelectWorkspace>();
  select.keys = keys_.as<uint64_t>();
  select.results = results_.as<DeviceScored>();
  select.num_large = large ? num_queries : 0;
  select.num_small = num_queries - select.num_large;
  select.only = selections[0];
  MAXSIM_RETURN_IF_CUDA_ERROR(LaunchSelect(select, nullptr, device_->overlap, stream));
  MAXSIM_RETURN_IF_ERROR(end_.Record(stream));

  all.resize(static_cast<size_t>(num_results));
  MAXSIM_RETURN_IF_CUDA_ERROR(
      cudaMemcpyAsync(all.data(), results_.as(), all.size() * sizeof(Scored), cudaMemcpyDeviceToHost, stream));
  MAXSIM_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
  finish.Finished();
  double seconds = 0;
  MAXSIM_ASSIGN_OR_RETURN(seconds, scanned_.SecondsSince(begin_));
  scan_seconds_ += seconds;
  MAXSIM_ASSIGN_OR_RETURN(seconds, end_.SecondsSince(scanned_));
  select_seconds_ += seconds;
  for (size_t i = 0; i < members.size(); ++i) {
    const auto begin = all.begin() + selections[i].results_offset;
    const auto end = begin + selections[i].k;
    // Those that the mask leaves out come last.
    const auto is_left_out = [](const Scored& scored) { return scored.score == kLeftOut; };
    results[members[i]].assign(begin, std::find_if(begin, end, is_left_out));
  }
  return absl::OkStatus();
}

}  // namespace maxsim::cuda
