// Fused MaxSim for Hopper (sm_90a) if several query tiles are scored against the same documents, for rows that are
// wider than those of the wide kernels. The kernel is a matrix multiplication that keeps only the maxima of its
// products.
//
// Persistent thread blocks of three warpgroups, one block per multiprocessor. In the last warpgroup one warp claims
// documents and looks them up (scheduler_warp.cuh), and one keeps a ring full by tensor copies (loader.cuh). The other
// two warpgroups multiply and take maxima (multiplier.cuh). Both operands come from shared memory, a chunk of 128 bytes
// of each row at a time. With 256 rows per row tile the two warpgroups have different rows and share every token tile;
// with 128 they have the same rows, and token tiles of different documents.
//
// NOTES:
//  - The last octet of a document may continue with rows of another document, or with zeros after the last document.
//    The rows after a tile's last document are undefined. Products of all these rows are masked or unused. Columns past
//    a row's end are zeros.
//  - The order of additions is that of the portable kernels, so scores have the same bits
//    (docs/internals/correctness.md). A row is one chain.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/score/fetch_params.cuh"
#include "kernels/cuda/score/hopper_common/scheduler_warp.cuh"
#include "kernels/cuda/score/hopper_common/work_unit_slot.cuh"
#include "kernels/cuda/score/hopper_deep/loader.cuh"
#include "kernels/cuda/score/hopper_deep/multiplier.cuh"
#include "kernels/cuda/score/hopper_deep/params.h"
#include "kernels/plan/hopper_deep_shape.h"

namespace maxsim::cuda::sm90 {

// Registers per thread for each role. All threads together must not have more registers than the thread block was
// launched with, 168 per thread: a warp that asks for more would wait for ever.
inline constexpr int kDeepLaunchRegisters = 65536 / kDeepThreads / 8 * 8;
inline constexpr int kDeepLoaderRegisters = 56;
inline constexpr int kDeepMultiplierRegisters = 224;
static_assert(kDeepLoaderRegisters + 2 * kDeepMultiplierRegisters <= 3 * kDeepLaunchRegisters);

template <ScalarType kType, ScoreTile kTile>
__global__ void __launch_bounds__(kDeepThreads, 1)
    DeepKernel(const __grid_constant__ DocumentMaps documents, const __grid_constant__ QueryMap queries,
               const __grid_constant__ DeepParams params) {
  extern __shared__ __align__(kDeepAlignment) uint8_t raw[];
  const DeepRing<kTile> ring(static_cast<uint32_t>(__cvta_generic_to_shared(raw)), params);
  const WorkUnitSlot slot = ring.Slot();
  // One lane provides the warp's number, so that the compiler knows that it is the same for the whole warp.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x / 32), 0), lane = threadIdx.x % 32;
  const FetchedParams fetched(params, warp);
  if (threadIdx.x == 0) {
    for (int i = 0; i < params.stages; ++i) {
      InitBarrier(ring.Full(i), kWritingLanes);
      InitBarrier(ring.Empty(i), kDeepMultipliers * kReadingLanes);
    }
    slot.InitBarriers();
    FenceBarrierInit();
  }
  __syncthreads();
  fetched.Wait();
  if (warp >= kDeepMultipliers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kDeepLoaderRegisters));
    if (warp == kDeepMultipliers) {
      DeepLoader<kType, kTile>(params, documents, queries, ring, slot, lane).Run();
    } else if (warp == kDeepMultipliers + 1) {
      SchedulerWarp<kType == ScalarType::kI8>(params, slot, lane).Run();
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kDeepMultiplierRegisters));
    DeepMultiplier<kType, kTile>(params, ring, warp, lane).Run();
  }
}

}  // namespace maxsim::cuda::sm90
