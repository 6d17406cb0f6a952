// Fused MaxSim for Hopper (sm_90a) where several blocks of query rows are scored against the same documents.
//
// Persistent thread blocks of three warpgroups, one a multiprocessor. The last one's first warp keeps a ring of token
// tiles full by tensor copies (loader.cuh); the other two multiply and take maxima (multiplier.cuh). Query rows stay in
// registers. With up to 256 rows a row tile the two warpgroups hold different rows and share every tile; with up to 128
// rows (params.documents_in_turn) both hold the same rows and take documents in turn.
//
// NOTES:
//  - A document's last group of eight rows may go on with another document's, or with zeros past the last one, and what
//    lies behind a tile's last document is anything: such products are masked, or come to nothing.
//  - Order of additions: that of the portable kernels, bit for bit (kernels/README.md). wgmma and mma.sync agree on the
//    sum of 16 columns; the butterfly over 32 rows is the same. INT8 sums are exact.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/score_params.h"
#include "kernels/cuda/sm90/loader.cuh"
#include "kernels/cuda/sm90/multiplier.cuh"
#include "kernels/plan.h"

namespace maxsim::cuda::sm90 {

// Registers a thread once the roles are known; the sum over the three warpgroups stays within what the block has.
inline constexpr int kLoaderRegisters = 40;
inline constexpr int kMultiplierRegisters = 232;

template <ScalarType kType, int kSteps>
__global__ void __launch_bounds__(kWideThreads, 1)
    ScoreKernel(const __grid_constant__ DocumentMaps maps, const __grid_constant__ ScoreParams params) {
  extern __shared__ uint8_t raw[];
  const uint32_t raw_address = static_cast<uint32_t>(__cvta_generic_to_shared(raw));
  uint32_t base = (raw_address + kWideAlignment - 1) / kWideAlignment * kWideAlignment;
  asm volatile("" : "+r"(base));  // to be kept: the compiler would compute it for every tile
  using Stages = Ring<WideHalves(kSteps)>;
  const Stages ring(base);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < Stages::kStages; ++i) {
      InitBarrier(ring.Full(i), 1);
      InitBarrier(ring.Empty(i), kWideMultipliers * kReadingLanes);
    }
    FenceBarrierInit();
  }
  __syncthreads();
  if (warp >= kWideMultipliers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kLoaderRegisters));
    if (warp == kWideMultipliers) Loader<kType, WideHalves(kSteps)>(params, maps, ring, lane).Run();
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMultiplierRegisters));
    Multiplier<kType, kSteps>(params, ring, warp, lane).Run();
  }
}

}  // namespace maxsim::cuda::sm90
