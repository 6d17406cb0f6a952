// Writes the input of the service's kernels from the members of a call, and finishes the scores that they write.
#include <algorithm>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/cuda/device_tokens.cuh"
#include "kernels/library/cuda/service_forward.h"
#include "kernels/plan/rows.h"

namespace maxsim::library {
namespace {

constexpr int kServiceThreads = 256;
constexpr int kServiceWarps = kServiceThreads / 32;
// The maximum number of thread blocks. It is enough to keep current devices busy. If there are more entries than
// threads, each thread handles several.
constexpr int64_t kMaxServiceBlocks = 1024;

// Copies one query token into its row of a query tile, or writes zeros if the token does not count, and writes the
// row's weight. All lanes of a warp call it together.
__device__ __forceinline__ void StackRow(const ServiceForward& f, int32_t stacked_row, int lane) {
  const maxsim_tokens& queries = f.problem.queries;
  const int32_t tile = stacked_row / kQueryTileTokens;
  const int32_t query = tile / f.shape.query_tiles;
  const int32_t token = tile % f.shape.query_tiles * kQueryTileTokens + stacked_row % kQueryTileTokens;
  const int64_t row = FirstRow(queries, query) + token;
  const bool counts = token < NumRows(queries, query) && (queries.mask == nullptr || queries.mask[row] != 0);
  if (lane == 0) {
    float weight = counts ? 1.0f : 0.0f;
    if (counts && f.problem.weights != nullptr) weight = f.problem.weights[row];
    if (counts && queries.scales != nullptr) {
      const float scale = queries.scales[queries.scale_of == MAXSIM_SCALE_PER_TOKEN ? row : query];
      weight = f.problem.weights == nullptr ? scale : __fmul_rn(weight, scale);
    }
    f.row_weights[stacked_row] = weight;
  }
  const auto* const source =
      reinterpret_cast<const uint4*>(static_cast<const uint8_t*>(queries.rows) + row * f.row_bytes);
  auto* const target = reinterpret_cast<uint4*>(f.query_rows + int64_t{stacked_row} * f.row_bytes);
  for (int i = lane; i < f.row_bytes / static_cast<int>(sizeof(uint4)); i += 32) {
    target[i] = counts ? source[i] : make_uint4(0, 0, 0, 0);
  }
}

__device__ __forceinline__ void WriteRowTile(const ServiceForward& f, int32_t number) {
  const ServiceShape& shape = f.shape;
  const int32_t list = number / shape.row_tiles_per_list;
  const int32_t first = number % shape.row_tiles_per_list * shape.tiles_per_row_tile;
  cuda::RowTile& tile = f.row_tiles[number];
  tile.first_row = int64_t{list * shape.tiles_per_list + first} * kQueryTileTokens;
  tile.ordinals_begin = shape.has_ordinals ? list * f.problem.list_length : -1;
  tile.num_candidates = f.problem.list_length;
  const int32_t num_query_tiles = min(shape.tiles_per_row_tile, shape.tiles_per_list - first);
  tile.num_query_tiles = num_query_tiles;
  tile.order_begin = 0;
#pragma unroll 1
  for (int32_t i = 0; i < num_query_tiles; ++i) {
    const int32_t query_tile = list * shape.tiles_per_list + first + i;
    cuda::QueryTileOutput& output = tile.outputs[i];
    for (int64_t& offset : output.offsets) offset = -1;
    // Scores and partial sums are both laid out as [query tile, list_length].
    output.offsets[0] = query_tile * f.problem.list_length;
    output.num_queries = 1;
    output.to_partials = f.partials == nullptr ? 0 : 1;
  }
}

// Writes the place of a document, and its scale.
__device__ __forceinline__ void WritePlace(const ServiceForward& f, int64_t document) {
  const maxsim_tokens& documents = f.problem.documents;
  const int64_t begin = FirstRow(documents, document);
  const int32_t length = NumRows(documents, document);
  f.places[2 * document] = length == 0 ? 0 : begin;
  f.places[2 * document + 1] = length == 0 ? 1 : begin + length;
  if (f.place_scales != nullptr) f.place_scales[2 * document] = documents.scales[document];
}

__global__ void __launch_bounds__(kServiceThreads) PrepareInputKernel(const __grid_constant__ ServiceForward forward) {
  const auto thread = static_cast<int32_t>(blockIdx.x * kServiceThreads + threadIdx.x);
  const auto num_threads = static_cast<int32_t>(gridDim.x * kServiceThreads);
  const int32_t num_rows = forward.shape.num_query_tiles() * kQueryTileTokens;
  for (int32_t row = thread / 32; row < num_rows; row += num_threads / 32) StackRow(forward, row, threadIdx.x % 32);
  const int32_t num_row_tiles = forward.shape.num_row_tiles();
  for (int32_t i = thread; i < num_row_tiles; i += num_threads) WriteRowTile(forward, i);
  for (int32_t i = thread; i < num_row_tiles + 2; i += num_threads) forward.claims[i] = 0;
  if (forward.shape.has_places) {
    for (int64_t i = thread; i < forward.problem.documents.num_sequences; i += num_threads) WritePlace(forward, i);
  }
  if (forward.shape.has_ordinals) {
    const int64_t count = forward.shape.num_lists * forward.problem.list_length;
    const int64_t* const candidates = forward.problem.candidates;
    const int elements = forward.shape.has_places ? 2 : 1;  // offsets per document
    for (int64_t i = thread; i < count; i += num_threads) {
      forward.ordinals[i] = static_cast<uint32_t>(elements * (candidates == nullptr ? i : candidates[i]));
    }
  }
}

__device__ __forceinline__ bool AnyTokenCounts(const maxsim_tokens& queries, int64_t query) {
  const int32_t num_rows = NumRows(queries, query);
  if (queries.mask == nullptr) return num_rows > 0;
  const uint8_t* const mask = queries.mask + FirstRow(queries, query);
  for (int32_t i = 0; i < num_rows; ++i) {
    if (mask[i] != 0) return true;
  }
  return false;
}

__global__ void __launch_bounds__(kServiceThreads) FinishScoresKernel(const __grid_constant__ ServiceForward forward) {
  const int64_t pair = static_cast<int64_t>(blockIdx.x) * kServiceThreads + threadIdx.x;
  const DeviceProblem& problem = forward.problem;
  if (pair >= problem.num_pairs) return;
  const int64_t query = static_cast<uint32_t>(pair) / static_cast<uint32_t>(problem.list_length);  // both fit 31 bits
  if (forward.shape.has_places && NumRows(problem.documents, DocumentAt(problem, pair)) == 0) {
    forward.scores[pair] = AnyTokenCounts(problem.queries, query) ? problem.empty_score : 0.0f;
    return;
  }
  if (forward.partials == nullptr) return;
  const float* partial =
      forward.partials + query * forward.shape.query_tiles * problem.list_length + (pair - query * problem.list_length);
  float score = 0;  // so that it never becomes -0
  for (int32_t tile = 0; tile < forward.shape.query_tiles; ++tile, partial += problem.list_length) {
    score = __fadd_rn(score, *partial);
  }
  forward.scores[pair] = score;
}

}  // namespace

cudaError_t LaunchPrepareInput(const ServiceForward& forward, cudaStream_t stream) {
  const int64_t num_warps = int64_t{forward.shape.num_query_tiles()} * kQueryTileTokens;  // one for each row
  const int64_t num_entries =
      std::max(forward.shape.has_places ? forward.problem.documents.num_sequences : 0,
               forward.shape.has_ordinals ? forward.shape.num_lists * forward.problem.list_length : 0);
  const int64_t num_blocks = std::clamp<int64_t>(
      std::max((num_warps + kServiceWarps - 1) / kServiceWarps, (num_entries + kServiceThreads - 1) / kServiceThreads),
      1, kMaxServiceBlocks);
  return cuda::LaunchKernel(PrepareInputKernel, dim3(static_cast<unsigned>(num_blocks)), dim3(kServiceThreads), 0,
                            stream, forward);
}

cudaError_t LaunchFinishScores(const ServiceForward& forward, cudaStream_t stream) {
  const int64_t num_blocks = (forward.problem.num_pairs + kServiceThreads - 1) / kServiceThreads;
  return cuda::LaunchKernel(FinishScoresKernel, dim3(static_cast<unsigned>(num_blocks)), dim3(kServiceThreads), 0,
                            stream, forward);
}

}  // namespace maxsim::library
