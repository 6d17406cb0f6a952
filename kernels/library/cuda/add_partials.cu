// Adds the sums of a query's tiles (32 tokens each): the last step of a score if a query has several tiles.
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/cuda/forward.h"

namespace maxsim::library {
namespace {

constexpr int kAddThreads = 256;

__global__ void __launch_bounds__(kAddThreads) AddPartialsKernel(const __grid_constant__ ForwardParams params) {
  const int64_t pair = static_cast<int64_t>(blockIdx.x) * kAddThreads + threadIdx.x;
  if (pair >= params.problem.num_pairs) return;
  float score = 0;
  bool empty = false;
  for (int64_t tile = 0; tile < params.plan.query_tiles; ++tile) {
    const float partial = params.partials[pair * params.plan.query_tiles + tile];
    const uint32_t bits = __float_as_uint(partial);
    if (bits == kNoQueryToken) continue;
    empty = empty || bits == kNoDocumentToken;
    score = __fadd_rn(score, partial);
  }
  params.scores[pair] = empty ? params.problem.empty_score : score;
}

}  // namespace

cudaError_t LaunchAddPartials(const ForwardParams& params, cudaStream_t stream) {
  const int64_t num_blocks = (params.problem.num_pairs + kAddThreads - 1) / kAddThreads;
  return cuda::LaunchKernel(AddPartialsKernel, dim3(static_cast<unsigned>(num_blocks)), dim3(kAddThreads), 0, stream,
                            params);
}

}  // namespace maxsim::library
