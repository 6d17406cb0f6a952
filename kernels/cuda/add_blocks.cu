// The scores of queries whose blocks gave partial sums: added in block order, the last step of the order of additions,
// and for joined lists picked from the union's.
#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/score_launch.h"

namespace maxsim::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxGridX = 4096;

// The place of a document in the union of its join.
__device__ __forceinline__ int64_t PlaceInUnion(const JoinWord* words, uint32_t ordinal) {
  const JoinWord word = words[ordinal / 32];
  return int64_t{word.before} + __popc(word.marks & ((1u << ordinal % 32) - 1));
}

__global__ void __launch_bounds__(kThreads)
    AddBlocks(BlockSums blocks, int64_t pass_first, int64_t pass_count, float* scores) {
  const BlockSum sum = blocks.sums[blockIdx.y];
  const int64_t count = min(pass_count, sum.num_candidates - pass_first);
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += gridDim.x * int64_t{kThreads}) {
    int64_t place = i;
    if (sum.words_begin >= 0) {
      place = PlaceInUnion(blocks.words + sum.words_begin, blocks.ordinals[sum.ordinals_begin + pass_first + i]);
    }
    const float* block = blocks.partials + sum.partials_offset + place;
    float score = block[0];
    for (int64_t b = 1; b < sum.num_blocks; ++b) score = __fadd_rn(score, block[b * sum.block_stride]);
    scores[sum.scores_offset + pass_first + i] = __fadd_rn(score, 0.0f);  // -0 becomes +0
  }
}

}  // namespace

cudaError_t PrepareAddBlocks() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, AddBlocks);
}

cudaError_t LaunchAddBlocks(const BlockSums& blocks, int64_t pass_first, int64_t pass_count, float* scores,
                            cudaStream_t stream) {
  if (blocks.num_sums == 0 || pass_count <= 0) return cudaSuccess;
  const int64_t columns = std::min((pass_count + kThreads - 1) / kThreads, kMaxGridX);
  const dim3 grid(static_cast<unsigned>(columns), static_cast<unsigned>(blocks.num_sums));
  return LaunchKernel(AddBlocks, grid, kThreads, 0, stream, blocks, pass_first, pass_count, scores);
}

}  // namespace maxsim::cuda
