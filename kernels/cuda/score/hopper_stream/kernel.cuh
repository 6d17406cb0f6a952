// Fused MaxSim for Hopper for a single query tile of 32 rows. With so few rows, the memory's rate limits the kernel.
//
// Persistent thread blocks, one per multiprocessor. The last warp copies token tiles into a ring of shared memory
// (loader.cuh). The warp copies exactly a document's rows and nothing past them. The other warps take tiles in turn,
// and each warp multiplies whole tiles (rows.cuh). The maxima of a document's tiles are combined in shared memory and,
// if several thread blocks have tiles of the document, in device memory. The warp that adds the last tile computes the
// document's sum.
//
// NOTES:
//  - The loading warp waits for almost nothing before its first copies. It finds out what to copy from the parameters,
//    or from one or two reads, while the other warps make the ring (docs/internals/kernels-stream.md).
//  - A call of one query over few candidates needs only this launch (single_launch_call.cuh). Its query rows arrive
//    while the ring fills.
//  - The order of additions is that of the portable kernels, so scores have the same bits
//    (docs/internals/correctness.md).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/runtime/grid_order.cuh"
#include "kernels/cuda/score/fetch_params.cuh"
#include "kernels/cuda/score/hopper_common/ptx/global.cuh"
#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/cuda/score/hopper_common/ptx/shared.cuh"
#include "kernels/cuda/score/hopper_stream/loader.cuh"
#include "kernels/cuda/score/hopper_stream/params.h"
#include "kernels/cuda/score/hopper_stream/ring.cuh"
#include "kernels/cuda/score/hopper_stream/rows.cuh"
#include "kernels/cuda/score/hopper_stream/share.cuh"
#include "kernels/cuda/score/hopper_stream/single_launch_call.cuh"
#include "kernels/cuda/score/sums.cuh"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/rows.h"

namespace maxsim::cuda::sm90 {

// The named barrier at which the multiplying warps synchronise.
inline constexpr int kMultipliersBarrier = 2;

// A warp that multiplies. Rows is RegisterRows or SharedRows. With kTeams, several thread blocks may share a document.
template <class Rows, bool kTeams>
class StreamMultiplier {
  static constexpr bool kQuantized = Rows::kStorage == ScalarType::kI8;
  using Value = Sum<Rows::kStorage>;

 public:
  __device__ __forceinline__ StreamMultiplier(const StreamParams& params, const StreamRing& ring, int warp, int lane)
      : p_(params), ring_(ring), warp_(warp), lane_(lane), rows_(params, ring, lane) {}

  // Takes the rows that the thread block begins with, if they are known before the first tile arrives.
  __device__ __forceinline__ void Begin() {
    if constexpr (Rows::kTakenEarly) {
      if (const int32_t row_tile = FirstRowTile<kTeams>(p_); row_tile >= 0) TakeRows(row_tile, 0);
    }
  }

  __device__ __forceinline__ void Run() {
    int stage = warp_;
    uint32_t parity = 0;
    while (true) {
      WaitBarrier(ring_.Full(stage), parity);
      StreamEntry entry;
      LoadShared(ring_.Entry(stage), entry.counts, entry.position, entry.place, entry.scale);
      if (entry.counts == 0) return;
      const int32_t row_tile = static_cast<int32_t>(entry.place / kStreamSlots);
      if (row_tile != row_tile_) TakeRows(row_tile, entry.QueryPhase());
      const Value maximum = rows_.Multiply(ring_.Tile(stage), entry.NumTokens());
      if (entry.NumTiles() == 1 && !(kTeams && entry.IsCut())) {
        Write(entry, maximum);
      } else {
        AddToDocument(entry, stage, maximum);
      }
      // The stage is released only after the document's slot (its maxima) has been used, so that there are never more
      // unfinished documents than stages. Each lane has read the stage, so each lane arrives for itself.
      Arrive(ring_.Empty(stage));
      stage += ring_.Warps();
      if (stage >= ring_.Stages()) {
        stage -= ring_.Stages();
        parity ^= 1;
      }
    }
  }

 private:
  // Takes the query rows and weights of a row tile. In a stream kernel a row tile is one query tile (32 rows), and
  // query tiles lie one after the other.
  __device__ __forceinline__ void TakeRows(int32_t row_tile, uint32_t phase) {
    row_tile_ = row_tile;
    rows_.Take(row_tile, phase);
    weight_ = p_.row_weights[int64_t{row_tile} * kQueryTileTokens + OwnRow(lane_)];
    if (p_.single_launch.state != nullptr) {
      sums_out_ = p_.scores;
      return;
    }
    const QueryTileOutput& output = p_.row_tiles[row_tile].outputs[0];
    sums_out_ =
        output.to_partials != 0 ? p_.partials + (output.offsets[0] - p_.pass_first) : p_.scores + output.offsets[0];
  }

  // Combines a tile's maxima with those of its document. The warp that adds the document's last tile writes its sum.
  __device__ __forceinline__ void AddToDocument(const StreamEntry& entry, int stage, Value maximum) const {
    if constexpr (kTeams) {
      if (entry.NumTiles() > 1 && !IsLastOfBlock(entry, maximum)) return;
      if (entry.IsCut() && !IsLastOfAll(entry, {LoadShared(ring_.Cut(stage))}, maximum)) return;
    } else {
      // Run calls AddToDocument only for documents of several tiles, so the number of tiles is not checked again.
      if (!IsLastOfBlock(entry, maximum)) return;
    }
    Write(entry, maximum);
  }

  // Merges a tile's maximum into its document's slot. Returns whether all of the thread block's tiles of the document
  // are now merged. If so, sets `maximum` to the maximum of all these tiles, and clears the slot.
  __device__ __forceinline__ bool IsLastOfBlock(const StreamEntry& entry, Value& maximum) const {
    const int slot = static_cast<int>(entry.place % kStreamSlots);
    MaxShared(ring_.Maxima(slot) + lane_ * 4, Ordered(maximum));
    __syncwarp();
    uint32_t before = 0;
    if (lane_ == 0) before = AddSharedAcquireRelease(ring_.Count(slot), 1);
    before = __shfl_sync(0xffffffffu, before, 0);
    if (before + 1 != entry.NumTiles()) return false;
    __syncwarp();  // extends lane 0's acquire to all lanes
    maximum = FromOrdered<Value>(static_cast<int32_t>(LoadShared(ring_.Maxima(slot) + lane_ * 4)));
    StoreShared(ring_.Maxima(slot) + lane_ * 4, kNoMaximum);
    if (lane_ == 0) StoreShared(ring_.Count(slot), 0u);
    return true;
  }

  // For a document that several thread blocks share: merges the maximum of this thread block's tiles into the maximum
  // in device memory. Returns whether all tiles of the document are now merged. If so, sets `maximum` to the maximum of
  // all tiles, and clears the document's place.
  __device__ __forceinline__ bool IsLastOfAll(const StreamEntry& entry, StreamCut cut, Value& maximum) const {
    uint32_t* const own = p_.teams.maxima + cut.Place() * kQueryTileTokens + lane_;
    uint32_t* const tiles = p_.teams.tiles + cut.Place();
    MaxGlobal(own, Rising(maximum));
    __syncwarp();
    uint32_t before = 0;
    if (lane_ == 0) before = AddGlobalAcquireRelease(tiles, entry.NumTiles());
    before = __shfl_sync(0xffffffffu, before, 0);
    if (before + entry.NumTiles() != cut.NumTiles()) return false;
    __syncwarp();  // extends lane 0's acquire to all lanes
    maximum = FromRising<Value>(LoadGlobalRelaxed(own));
    *own = 0;
    if (lane_ == 0) *tiles = 0;
    return true;
  }

  // Adds the 32 weighted maxima by the butterfly (docs/internals/correctness.md), over rows that are 16, 8, 4, 2 and 1
  // apart, and writes the sum. OwnRow says which lane has which row.
  __device__ __forceinline__ void Write(const StreamEntry& entry, Value maximum) const {
    float sum = __fmul_rn(weight_, ValueOf(maximum));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 1));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 2));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 16));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 8));
    sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, 4));
    if (kQuantized) sum = __fmul_rn(sum, __uint_as_float(entry.scale));
    // -0 becomes +0, so that the sort order is total.
    if (lane_ == 0) sums_out_[entry.position] = __fadd_rn(sum, 0.0f);
  }

  const StreamParams& p_;
  const StreamRing& ring_;
  const int warp_;
  const int lane_;
  Rows rows_;
  int32_t row_tile_ = -1;
  float weight_ = 0;           // weight of the lane's row (OwnRow)
  float* sums_out_ = nullptr;  // [position]

 public:
  static constexpr uint32_t kNoMaximum = kLowestOrdered<Value>;
};

// kSteps is the number of steps of a row in registers, or 0 for wide rows in shared memory.
template <ScalarType kType, int kSteps>
struct StreamRowsOf {
  using Type = RegisterRows<kType, kSteps>;
};
template <ScalarType kType>
struct StreamRowsOf<kType, 0> {
  using Type = SharedRows<kType>;
};

constexpr int StreamMaxThreads(int steps) {
  return steps > 0 ? kStreamRegisterShape.threads() : 32 * (kStreamMaxWarps + 1);
}

// With kTeams, the thread blocks form teams (StreamShares in kernels/plan/shares.h).
template <ScalarType kType, int kSteps, bool kTeams>
__global__ void __launch_bounds__(StreamMaxThreads(kSteps), 1)
    StreamKernel(const __grid_constant__ StreamParams params) {
  extern __shared__ __align__(kStreamAlignment) uint8_t raw[];
  LetNextGridStart();
  constexpr bool kShared = kSteps == 0;
  constexpr bool kMayBeSingleLaunch = !kShared;
  using Multiplier = StreamMultiplier<typename StreamRowsOf<kType, kSteps>::Type, kTeams>;
  const StreamRing ring(static_cast<uint32_t>(__cvta_generic_to_shared(raw)),
                        kShared ? SharedShape(params) : kStreamRegisterShape);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (warp == ring.Warps()) {
    WaitForEarlierGrids();
    StreamLoader<kShared, kType == ScalarType::kI8, kTeams>(params, ring, lane).Run();
  } else {
    const FetchedParams fetched(params, warp);
    if (lane == 0) {
      for (int stage = warp; stage < ring.Stages(); stage += ring.Warps()) {
        InitBarrier(ring.Full(stage), 1);
        InitBarrier(ring.Empty(stage), 32);
      }
      if (kShared && warp == 0) InitBarrier(ring.QueryFull(), 1);
      FenceBarrierInit();
    }
    __syncwarp();
    asm volatile("barrier.cta.arrive %0, %1;" ::"n"(kRingMade), "r"(blockDim.x) : "memory");
    fetched.Wait();
    const int threads = ring.Warps() * 32;
    WaitForEarlierGrids();
    if constexpr (kMayBeSingleLaunch) {
      static_assert(kInputVectors * sizeof(uint4) * 32 * kStreamRegisterShape.warps >= kSingleLaunchInputBytes);
      __shared__ uint32_t input_is_there;
      if (params.single_launch.input_bytes > 0)
        BringInput<kMultipliersBarrier>(params.single_launch, input_is_there, threads);
    }
    Multiplier multiplier(params, ring, warp, lane);
    multiplier.Begin();
    for (int i = threadIdx.x; i < kStreamSlots * kQueryTileTokens; i += threads) {
      StoreShared(ring.Maxima(0) + i * 4, Multiplier::kNoMaximum);
    }
    for (int i = threadIdx.x; i < kStreamSlots; i += threads) StoreShared(ring.Count(i), 0u);
    NamedBarrierSync<kMultipliersBarrier>(threads);  // from here on warps may combine maxima
    multiplier.Run();
    if constexpr (kMayBeSingleLaunch) {
      // The loading warp no longer uses the ring, because its last entries have been read. So SelectAtEnd may use its
      // memory.
      static_assert(sizeof(SingleLaunchSpace) <= kStreamRegisterShape.stages * kStreamRegisterShape.stage_bytes);
      if (params.single_launch.state != nullptr) {
        SelectAtEnd<32 * kStreamRegisterShape.warps, kMultipliersBarrier>(params.single_launch, params.scores,
                                                                          *reinterpret_cast<SingleLaunchSpace*>(raw));
      }
    }
  }
}

}  // namespace maxsim::cuda::sm90
