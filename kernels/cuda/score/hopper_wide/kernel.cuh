// Fused MaxSim for Hopper (sm_90a) if several query tiles are scored against the same documents.
//
// Persistent thread blocks of three warpgroups, one block per multiprocessor. The warps of the last warpgroup keep a
// ring of token tiles full: one claims documents and looks them up (scheduler_warp.cuh), one describes tiles
// (loader.cuh), one has them copied (tile_copier.cuh), one fills up documents' last octets (tail_repeater.cuh). The
// other two warpgroups multiply and take maxima (multiplier.cuh). Query rows stay in registers. If a row tile has more
// than 128 rows, the two warpgroups hold different rows and share every tile; else (RowTile::IsHalf) both hold the same
// rows and take documents in turn.
//
// NOTES:
//  - The rows after a tile's last document are undefined: their products are never used.
//  - The order of additions is that of the portable kernels, so scores have the same bits
//    (docs/internals/correctness.md): wgmma gives the same sum of 16 columns as mma.sync, and the butterfly over 32
//    rows is the same. INT8 sums are exact.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/score/fetch_params.cuh"
#include "kernels/cuda/score/hopper_common/document_maps.h"
#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/cuda/score/hopper_common/ptx/named_barrier.cuh"
#include "kernels/cuda/score/hopper_common/scheduler_warp.cuh"
#include "kernels/cuda/score/hopper_common/token_tile.cuh"
#include "kernels/cuda/score/hopper_common/work_unit_slot.cuh"
#include "kernels/cuda/score/hopper_wide/loader.cuh"
#include "kernels/cuda/score/hopper_wide/multiplier.cuh"
#include "kernels/cuda/score/hopper_wide/params.h"
#include "kernels/cuda/score/hopper_wide/ring.cuh"
#include "kernels/cuda/score/hopper_wide/tail_repeater.cuh"
#include "kernels/cuda/score/hopper_wide/tile_copier.cuh"
#include "kernels/plan/hopper_wide_shape.h"

namespace maxsim::cuda::sm90 {

// Registers per thread for each role. All threads together must not have more registers than the thread block was
// launched with, 168 per thread: a warp that asks for more would wait for ever.
inline constexpr int kLaunchRegisters = 65536 / kWideThreads / 8 * 8;
inline constexpr int kLoaderRegisters = 40;
inline constexpr int kMultiplierRegisters = 232;
static_assert(kLoaderRegisters + 2 * kMultiplierRegisters <= 3 * kLaunchRegisters);

// The warps of the loading warpgroup synchronise at kLoadersBarrier when they have initialised their part of the
// ring's barriers. The whole thread block synchronises at kRingMadeBarrier when all of these barriers are
// initialised.
inline constexpr int kLoadersBarrier = 1;
inline constexpr int kRingMadeBarrier = 2;

template <ScalarType kType, int kSteps>
__global__ void __launch_bounds__(kWideThreads, 1)
    WideKernel(const __grid_constant__ DocumentMaps maps, const __grid_constant__ WideParams params) {
  extern __shared__ __align__(kWideAlignment) uint8_t raw[];
  uint32_t base = static_cast<uint32_t>(__cvta_generic_to_shared(raw));
  asm volatile("" : "+r"(base));  // keeps the value in a register; else it is computed for every tile
  constexpr int kHalves = WideHalves(kSteps);
  using Stages = WideRing<kHalves>;
  const Stages ring(base);
  const WorkUnitSlot slot = ring.Slot();
  // One lane provides the warp's number, so that the compiler knows that it is the same for the whole warp.
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x / 32), 0), lane = threadIdx.x % 32;
  if (warp >= kWideMultipliers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kLoaderRegisters));
    const FetchedParams fetched(params, warp - kWideMultipliers);
    // One lane of each warp initialises barriers: lanes of one warp would do it one after another.
    constexpr int kWarps = kWideThreads / 32 - kWideMultipliers;
#pragma unroll
    for (int first = 0; first < Stages::kBarriers; first += kWarps) {
      const int barrier = first + warp - kWideMultipliers;
      if (lane == 0 && barrier < Stages::kBarriers) InitBarrier(ring.Barrier(barrier), Stages::kArrivals);
    }
    if (lane == 0) FenceBarrierInit();
    __syncwarp();
    ArriveAtNamed<kWideThreads>(kRingMadeBarrier);
    WaitAtNamed<kWarps * 32>(kLoadersBarrier);
    fetched.Wait();
    if (warp == kWideMultipliers) {
      Loader<kType, kHalves>(params, ring, slot, lane).Run();
    } else if (warp == kWideMultipliers + 1) {
      TileCopier<kType, kHalves>(maps, ring, lane).Run();
    } else if (warp == kWideMultipliers + 2) {
      TailRepeater<kHalves>(ring, lane).Run();
    } else {
      SchedulerWarp<kType == ScalarType::kI8>(params, slot, lane).Run();
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kMultiplierRegisters));
    // Starts to load the query rows before the warp waits for anything.
    Multiplier<kType, kSteps> multiplier(params, ring, warp, lane);
    multiplier.Begin();
    WaitAtNamed<kWideThreads>(kRingMadeBarrier);
    multiplier.Run();
  }
}

}  // namespace maxsim::cuda::sm90
