#include "kernels/cuda/call/planning/slice_capacity.h"

#include <algorithm>

#include "kernels/cuda/score/score_params.h"
#include "kernels/cuda/select/topk_launch.h"
#include "kernels/limits.h"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/select.h"

namespace maxsim::cuda {
namespace {

// Maximum number of queries in a slice. The limit bounds the tables and the workspace of large selections (117 KiB per
// query).
constexpr int64_t kMaxSliceQueries = 256;
// Maximum number of results of a slice: 64 queries with kMaxTopK results each, 5 MB.
constexpr int64_t kMaxSliceResults = 64 * int64_t{kMaxTopK};
// A slice usually has room for this many bytes of queries. It has room for fewer bytes if all its rows together take
// less, and for more if a single query needs more.
constexpr int64_t kMinSliceQueryBytes = int64_t{16} << 20;

}  // namespace

SliceCapacity SliceCapacity::For(const ExecutorOptions& options) {
  SliceCapacity capacity;
  const int64_t query_tokens = std::min<int64_t>(options.max_query_tokens, kMaxQueryTokens);
  capacity.queries = std::clamp<int64_t>(options.max_queries, 1, kMaxSliceQueries);
  capacity.rows = std::max(options.max_query_tokens + (kQueryTileTokens - 1) * capacity.queries,
                           NumQueryTiles(query_tokens) * kQueryTileTokens);
  const int64_t widest_query =
      NumQueryTiles(query_tokens) * kQueryTileTokens * DeviceRowBytes(ScalarType::kF32, options.max_dim);
  capacity.query_bytes = std::max(
      widest_query, std::min(kMinSliceQueryBytes, capacity.rows * DeviceRowBytes(ScalarType::kF32, options.max_dim)));
  capacity.candidates = std::max<int64_t>(options.max_candidates, 1);
  capacity.scores = capacity.candidates + capacity.queries * kSelectAlignment;
  capacity.results = std::clamp<int64_t>(capacity.queries * kMaxTopK, kMaxTopK, kMaxSliceResults);
  capacity.partial_query_tiles = capacity.rows / kQueryTileTokens;
  return capacity;
}

size_t SliceCapacity::InputBytes() const {
  const size_t query_tiles = static_cast<size_t>(rows / kQueryTileTokens);
  return AlignPart(query_tiles * sizeof(RowTile)) + AlignPart(static_cast<size_t>(queries) * sizeof(PartialSums)) +
         AlignPart(static_cast<size_t>(queries) * sizeof(SelectQuery)) +
         AlignPart(static_cast<size_t>(rows) * sizeof(float)) + AlignPart(static_cast<size_t>(query_bytes)) +
         AlignPart(static_cast<size_t>(queries) * sizeof(JoinedList)) +
         AlignPart(static_cast<size_t>(queries) * sizeof(JoinedUnion)) +
         AlignPart(static_cast<size_t>(candidates) * sizeof(uint32_t));
}

size_t SliceCapacity::DeviceBytes() const {
  // The unions of joined lists have at most as many ordinals as the lists. The quantised queries fit query_bytes,
  // because a row of I8 has at most the bytes of a row of F32 (rows have at least 32 bytes).
  return AlignPart(InputBytes()) + AlignPart(static_cast<size_t>(candidates) * sizeof(uint32_t)) +
         AlignPart(static_cast<size_t>(query_bytes)) + AlignPart(static_cast<size_t>(rows) * sizeof(float));
}

size_t QueriesOfSlice(absl::Span<const Query> queries, ScalarType type, int32_t dim, int64_t num_documents,
                      const SliceCapacity& capacity) {
  const int64_t query_pitch = StreamQueryPitch(DeviceRowBytes(QueryType(type), dim));  // the largest of all tilings
  int64_t rows = 0, candidates = 0, results = 0;
  size_t count = 0;
  for (const Query& query : queries) {
    const int64_t num_candidates = NumCandidates(query, num_documents);
    rows += NumQueryTiles(query.num_tokens) * kQueryTileTokens;
    candidates += num_candidates;
    results += std::min<int64_t>(query.top_k, num_candidates);
    const bool fits = static_cast<int64_t>(count) < capacity.queries && rows <= capacity.rows &&
                      rows * query_pitch <= capacity.query_bytes && candidates <= capacity.candidates &&
                      results <= capacity.results;
    if (!fits && count > 0) break;
    ++count;
  }
  return count;
}

}  // namespace maxsim::cuda
