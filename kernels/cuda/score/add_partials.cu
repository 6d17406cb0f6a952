// Computes scores from the partial sums of query tiles (32 query tokens each). Adds the sums in the order of query
// tiles, which is the last step of the order of additions. For joined lists (scored as their union), reads the partial
// sums of the union's documents.
#include "kernels/cuda/score/add_partials.h"

#include <algorithm>

#include "kernels/cuda/runtime/grid_order.cuh"

namespace maxsim::cuda {
namespace {

// Thread blocks are small, so that even a few candidates are spread over the device.
constexpr int kThreads = 64;
constexpr int64_t kMaxGridX = 4096;
// Number of query tiles whose sums a thread reads together. If it read them one after another, each would cost a round
// trip to the cache.
constexpr int kReadsAtOnce = 16;

// Returns the place of a document in the union of its join.
__device__ __forceinline__ int64_t PlaceInUnion(const JoinWord* words, uint32_t ordinal) {
  const JoinWord word = words[ordinal / 32];
  return int64_t{word.before} + __popc(word.marks & ((1u << ordinal % 32) - 1));
}

__global__ void __launch_bounds__(kThreads)
    AddBlocks(PartialSumsCall call, int64_t pass_first, int64_t pass_count, float* scores) {
  WaitForEarlierGrids();
  const PartialSums sum = call.sums[blockIdx.y];
  const int64_t count = min(pass_count, sum.num_candidates - pass_first);
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += gridDim.x * int64_t{kThreads}) {
    int64_t place = i;
    if (sum.words_begin >= 0) {
      place = PlaceInUnion(call.words + sum.words_begin, call.ordinals[sum.ordinals_begin + pass_first + i]);
    }
    const float* block = call.partials + sum.partials_offset + place;
    float score = 0;  // so that it never becomes -0
    for (int64_t first = 0; first < sum.num_query_tiles; first += kReadsAtOnce) {
      float of_block[kReadsAtOnce];
#pragma unroll
      for (int b = 0; b < kReadsAtOnce; ++b) {
        of_block[b] = first + b < sum.num_query_tiles ? block[(first + b) * sum.query_tile_stride] : 0.0f;
      }
#pragma unroll
      for (int b = 0; b < kReadsAtOnce; ++b) score = __fadd_rn(score, of_block[b]);
    }
    scores[sum.scores_offset + pass_first + i] = score;
  }
}

}  // namespace

cudaError_t PrepareAddPartials(bool& overlap) { return FindGridOrder(AddBlocks, overlap); }

cudaError_t LaunchAddPartials(const PartialSumsCall& call, int64_t pass_first, int64_t pass_count, float* scores,
                              bool overlap, cudaStream_t stream) {
  if (call.num_sums == 0 || pass_count <= 0) return cudaSuccess;
  const int64_t columns = std::min((pass_count + kThreads - 1) / kThreads, kMaxGridX);
  const dim3 grid(static_cast<unsigned>(columns), static_cast<unsigned>(call.num_sums));
  return LaunchOverlappingIf(overlap, AddBlocks, grid, kThreads, 0, stream, call, pass_first, pass_count, scores);
}

}  // namespace maxsim::cuda
