// Adds the block sums of queries that have several blocks, in block order: the last step of the order of additions.
#include <algorithm>

#include "kernels/cuda/score_launch.h"

namespace maxsim::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxGridX = 4096;

__global__ void __launch_bounds__(kThreads) AddBlocks(const BlockSum* sums, const float* partials, int64_t pass_stride,
                                                      int64_t pass_first, int64_t pass_count, float* scores) {
  const BlockSum sum = sums[blockIdx.y];
  const int64_t count = min(pass_count, sum.num_candidates - pass_first);
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += gridDim.x * int64_t{kThreads}) {
    const float* block = partials + sum.partials_offset + i;
    float score = block[0];
    for (int64_t b = 1; b < sum.num_blocks; ++b) score = __fadd_rn(score, block[b * pass_stride]);
    scores[sum.scores_offset + pass_first + i] = __fadd_rn(score, 0.0f);  // -0 becomes +0
  }
}

}  // namespace

cudaError_t PrepareAddBlocks() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, AddBlocks);
}

cudaError_t LaunchAddBlocks(const BlockSum* sums, int num_sums, const float* partials, int64_t pass_stride,
                            int64_t pass_first, int64_t pass_count, float* scores, cudaStream_t stream) {
  if (num_sums == 0 || pass_count <= 0) return cudaSuccess;
  const int64_t blocks = std::min((pass_count + kThreads - 1) / kThreads, kMaxGridX);
  AddBlocks<<<dim3(static_cast<unsigned>(blocks), num_sums), kThreads, 0, stream>>>(sums, partials, pass_stride,
                                                                                    pass_first, pass_count, scores);
  return cudaGetLastError();
}

}  // namespace maxsim::cuda
