// The forward pass on Hopper. One warp loads tiles of documents and finds out which of their tokens count. One or two
// warpgroups multiply the tiles (wgmma) with query rows, which stay in registers.
//
// Each multiplying warp has one query tile (32 rows). Rows 0 to 15 belong to one product and rows 16 to 31 to a second
// one, so that all maxima of a query tile are in the registers of one warp. Each lane keeps, for each of its four rows,
// the best similarity so far and, if the caller asks for matches, its token. While one warpgroup compares, the tensor
// cores work for the other.
//
// The results have the same bits as those of forward_kernel.cuh: both kernels add groups of 16 columns in order, take
// the first of equal tokens, and add maxima in the fixed tree of docs/internals/correctness.md.
//
// NOTES:
//  - A tile's rows past the end of its document belong to the next document, or are zeros past the end of the array.
//    Their products are computed but not used.
//  - One lane reads a tile's description (HopperTile) and broadcasts it, so that the compiler knows that all lanes have
//    the same values.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/library/cuda/hopper/loader.cuh"
#include "kernels/library/cuda/hopper/multiplier.cuh"
#include "kernels/library/cuda/hopper/ring.cuh"
#include "kernels/library/cuda/hopper_forward.h"

namespace maxsim::library {

// Registers per thread. A thread block is launched with the same number (kLaunch) for every thread. Then the warps of
// the loading warpgroup keep only kLoader, and multiplying warps take kMultiplier. A multiprocessor has 65,536
// registers.
template <int kWarpgroups>
struct HopperRegisters {
  static constexpr int kBlocks = kWarpgroups == 1 ? 2 : 1;  // per multiprocessor
  static constexpr int kThreads = (kWarpgroups + 1) * kHopperWarps * 32;
  static constexpr int kLaunch = 65536 / (kBlocks * kThreads) / 8 * 8;
  static constexpr int kLoader = 40;
  static constexpr int kMultiplier = kWarpgroups == 1 ? 216 : 232;
  static_assert(kLoader + kWarpgroups * kMultiplier <= (kWarpgroups + 1) * kLaunch);
};

template <ScalarType kType, int kHalves, int kWarpgroups, bool kMatches, bool kTokenScales>
__global__ void __launch_bounds__(HopperRegisters<kWarpgroups>::kThreads, HopperRegisters<kWarpgroups>::kBlocks)
    HopperForwardKernel(const __grid_constant__ HopperForwardParams params) {
  extern __shared__ __align__(1024) uint8_t hopper_shared[];
  using Shared = HopperShared<kHalves, kWarpgroups>;
  using Registers = HopperRegisters<kWarpgroups>;
  constexpr int kWarps = kWarpgroups * kHopperWarps;
  const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(hopper_shared));
  if (threadIdx.x == 0) HopperRing<Shared>(base).Init(kWarps);
  __syncthreads();
  const HopperPart part(params);
  // Broadcasts the number from one lane, so that the compiler knows that it is the same for the whole warp.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x / 32), 0);
  if (warp >= kWarps) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers::kLoader));
    if (warp == kWarps) HopperLoader<kType, kHalves, kTokenScales, Shared>(params, part, base).Run();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers::kMultiplier));
    HopperMultiplier<kType, kHalves, kWarpgroups, kMatches, kTokenScales, Shared>(params, part, base, warp).Run();
  }
}

template <ScalarType kType, int kHalves, int kWarpgroups, bool kTokenScales>
cudaError_t LaunchHopperForward(const HopperForwardParams& params, cudaStream_t stream) {
  using Registers = HopperRegisters<kWarpgroups>;
  constexpr size_t kSharedBytes = kHopperSharedBytes<kType, kTokenScales, HopperShared<kHalves, kWarpgroups>>;
  static_assert(kSharedBytes * Registers::kBlocks <= 225 * 1024);
  const auto kernel = params.forward.argmax == nullptr
                          ? HopperForwardKernel<kType, kHalves, kWarpgroups, false, kTokenScales>
                          : HopperForwardKernel<kType, kHalves, kWarpgroups, true, kTokenScales>;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  return cuda::LaunchKernel(kernel, dim3(static_cast<unsigned>(params.plan.num_blocks)), dim3(Registers::kThreads),
                            kSharedBytes, stream, params);
}

template <ScalarType kType, int kHalves>
cudaError_t LaunchHopperForwardOf(const HopperForwardParams& params, cudaStream_t stream) {
  const bool token_scales = HasTokenScales(params.forward.problem.documents);
  if (params.plan.warpgroups == 2) {
    return token_scales ? LaunchHopperForward<kType, kHalves, 2, true>(params, stream)
                        : LaunchHopperForward<kType, kHalves, 2, false>(params, stream);
  }
  if constexpr (kHalves == 1) {  // otherwise the plan has two warpgroups if tokens have scales
    if (token_scales) return LaunchHopperForward<kType, kHalves, 1, true>(params, stream);
  }
  return LaunchHopperForward<kType, kHalves, 1, false>(params, stream);
}

template <ScalarType kType>
cudaError_t HopperForwardLauncher<kType>::Launch(const HopperForwardParams& params, cudaStream_t stream) {
  if constexpr (HopperMaxRowBytes(kType) > kHopperHalfBytes) {
    if (params.forward.plan.row_bytes > kHopperHalfBytes) return LaunchHopperForwardOf<kType, 2>(params, stream);
  }
  return LaunchHopperForwardOf<kType, 1>(params, stream);
}

}  // namespace maxsim::library
