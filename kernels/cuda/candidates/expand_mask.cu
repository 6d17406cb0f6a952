#include "kernels/cuda/candidates/expand_mask.h"

#include "kernels/cuda/runtime/launch.cuh"

namespace maxsim::cuda {
namespace {

constexpr int kWarps = 8;
constexpr uint32_t kAllLanes = 0xffffffffu;
static_assert(kRankWords == 16, "each lane of a warp holds half a word");

// A warp expands a group of kRankWords words. For each half word, every lane writes one candidate or none, so that
// neighbouring lanes write neighbouring candidates.
__global__ void __launch_bounds__(kWarps * 32) ExpandMask(const __grid_constant__ MaskExpansion expansion) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t group = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (group * kRankWords >= expansion.num_words) return;
  const int64_t half = group * kRankWords * 2 + lane;
  const uint32_t held = half < expansion.num_words * 2 ? reinterpret_cast<const uint32_t*>(expansion.words)[half] : 0;
  uint32_t place = expansion.ranks[group];
  for (int i = 0; i < 32; ++i) {
    const uint32_t bits = __shfl_sync(kAllLanes, held, i);
    if ((bits >> lane & 1) != 0) {
      const uint32_t before = __popc(bits & ((1u << lane) - 1));
      expansion.ordinals[place + before] = static_cast<uint32_t>((group * kRankWords * 2 + i) * 32 + lane);
    }
    place += __popc(bits);
  }
}

}  // namespace

cudaError_t PrepareExpandMask() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, ExpandMask);
}

cudaError_t LaunchExpandMask(const MaskExpansion& expansion, cudaStream_t stream) {
  const int64_t groups = (expansion.num_words + kRankWords - 1) / kRankWords;
  return LaunchKernel(ExpandMask, static_cast<unsigned>((groups + kWarps - 1) / kWarps), kWarps * 32, 0, stream,
                      expansion);
}

}  // namespace maxsim::cuda
