// The loading warp of the wide kernels (for token vectors of up to 256 bytes). The warp goes through the thread block's
// documents, cuts them into token tiles, and writes for the other warps which documents each tile holds.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/ptx/mbarrier.cuh"
#include "kernels/cuda/score/hopper_common/tile_filler.cuh"
#include "kernels/cuda/score/hopper_common/token_tile.cuh"
#include "kernels/cuda/score/hopper_common/work_unit_slot.cuh"
#include "kernels/cuda/score/hopper_wide/params.h"
#include "kernels/cuda/score/hopper_wide/ring.cuh"
#include "kernels/plan/hopper_wide_shape.h"
#include "kernels/plan/score_tile.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

template <ScalarType kType, int kHalves>
class Loader {
 public:
  __device__ __forceinline__ Loader(const WideParams& params, WideRing<kHalves> ring, const WorkUnitSlot& slot,
                                    int lane)
      : p_(params), ring_(ring), slot_(slot), lane_(lane) {}

  __device__ __forceinline__ void Run() {
    Filler filler(p_, slot_, lane_);
    filler.Begin();
    // With a whole row tile (more than 128 query rows), each token tile is for both warpgroups. With a half row tile,
    // the warpgroups get token tiles in turn, and each has its own documents.
    Stream stream, other;
    uint32_t told = 3;  // mask of warpgroups that know the row tile; all begin with the first row tile
    do {
      const int streams = filler.IsInHalfTile() ? 2 : 1;
      uint32_t warpgroups = filler.IsInHalfTile() ? 1 : 3;
      for (int idle = 0; idle < streams;) {
        idle = DescribeTile(filler, stream, warpgroups, told) ? 0 : idle + 1;
        if (streams == 1) continue;
        const Stream next = other;
        other = stream;
        stream = next;
        warpgroups ^= 3;
      }
      told = 0;
    } while (filler.NextRowTile());
    WaitForStage();
    if (lane_ == 0) TileHeader{}.Store(ring_.Entry(at_.stage));
    Arrive(ring_.Described(at_.stage));
  }

 private:
  using Filler = TileFiller<kType == ScalarType::kI8, kWideTokens, kWideMostEnds, /*kLasts=*/false>;

  // State that carries over from the previous tile for the same warpgroups.
  struct Stream {
    OpenDocument open;
    bool after_many = false;  // TileEnds::kAfterMany
  };

  // Describes a tile for the warpgroups in the mask. Returns false if the row tile has no documents left.
  __device__ __forceinline__ bool DescribeTile(Filler& filler, Stream& stream, uint32_t warpgroups, uint32_t& told) {
    WaitForStage();
    const uint32_t entry = ring_.Entry(at_.stage);
    TileHeader header = filler.Fill(stream.open, entry, ring_.Notes(at_.stage));
    if (header.octets == 0) return false;
    header.flags = warpgroups | ((told & warpgroups) == warpgroups ? 0 : TileHeader::kNewRows);
    told |= warpgroups;
    const uint32_t ends = header.ends;
    header.ends |= stream.after_many ? TileEnds::kAfterMany : QuarterOf(ends);
    stream.after_many = __popc(ends) > TileEnds::kFewEnds;
    if (stream.open.tokens == 0) header.ends |= TileEnds::kNothingOpen;
    if (lane_ == 0) header.Store(entry);
    Arrive(ring_.Described(at_.stage));
    at_.Advance();
    filler.LookAhead(stream.open);
    return true;
  }

  // If all ends are in one quarter of the tile, returns the bits that name this quarter; otherwise 0.
  static __device__ __forceinline__ uint32_t QuarterOf(uint32_t ends) {
    if (ends == 0) return 0;
    const uint32_t quarter = static_cast<uint32_t>(31 - __clz(static_cast<int>(ends))) / TileEnds::kOctetsOfQuarter;
    return (ends & ((1u << quarter * TileEnds::kOctetsOfQuarter) - 1)) == 0
               ? TileEnds::kInOneQuarter | quarter << TileEnds::kQuarterAt
               : 0;
  }

  // Waits until the multiplying warps are done with the tile that was in this stage before.
  __device__ __forceinline__ void WaitForStage() const { WaitBarrier(ring_.Empty(at_.stage), at_.parity ^ 1); }

  const WideParams& p_;
  const WideRing<kHalves> ring_;
  const WorkUnitSlot& slot_;
  const int lane_;
  RingPlace<WideRing<kHalves>::kStages> at_;
};

}  // namespace maxsim::cuda::sm90
