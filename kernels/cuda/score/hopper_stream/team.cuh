// Says which parts of its team's documents a thread block of a stream kernel has (StreamShares in
// kernels/plan/shares.h). The token tiles of the team's documents are numbered consecutively. Each thread block has
// consecutive tiles, and the numbers of tiles of two thread blocks differ by at most one. All thread blocks of a team
// compute the same numbers, from the lengths of all documents of the team.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_stream/params.h"
#include "kernels/cuda/score/hopper_stream/ring.cuh"
#include "kernels/cuda/score/hopper_stream/share.cuh"
#include "kernels/plan/shares.h"

namespace maxsim::cuda::sm90 {

// The part of a lane's document that belongs to the thread block.
struct StreamPart {
  int32_t tiles = 0;
  int32_t skipped = 0;  // tiles of the document before the part
  StreamCut cut{0};     // 0: the part is the whole document

  __device__ __forceinline__ bool IsWhole() const { return cut.bits == 0; }
};

// One warp uses it. Each lane has one document of every work unit.
class StreamTeam {
 public:
  __device__ __forceinline__ StreamTeam(const StreamParams& params, int lane) : p_(params), lane_(lane) {}

  // Takes the team's work units, with the locations of their documents.
  __device__ __forceinline__ void Take(const StreamWorkUnit (&units)[kTeamUnits]) {
    int32_t total = 0;
#pragma unroll
    for (int c = 0; c < kTeamUnits; ++c) {
      tiles_[c] = lane_ < units[c].count ? NumTiles(units[c]) : 0;
      int32_t end = tiles_[c];
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const int32_t below = __shfl_up_sync(0xffffffffu, end, distance);
        if (lane_ >= distance) end += below;
      }
      first_[c] = total + end - tiles_[c];
      total += __shfl_sync(0xffffffffu, end, 31);
    }
    const int32_t blocks = p_.teams.blocks;
    const int32_t rank = static_cast<int32_t>(blockIdx.x) - OwnTeam<true>(p_) * blocks;
    const int32_t each = total / blocks, extra = total - each * blocks;
    begin_ = rank * each + min(rank, extra);
    end_ = begin_ + each + (rank < extra ? 1 : 0);
  }

  // Returns the thread block's part of the lane's document of `unit`, which must be the first work unit that has not
  // been left (Leave).
  __device__ __forceinline__ StreamPart PartOf(const StreamWorkUnit& unit) const {
    const int32_t begin = max(begin_, first_[0]), end = min(end_, first_[0] + tiles_[0]);
    if (begin >= end) return {};
    StreamPart part{end - begin, begin - first_[0], {0}};
    // The candidates of all row tiles are numbered consecutively.
    const uint32_t place = static_cast<uint32_t>(unit.row_tile) * p_.pattern.regular +
                           static_cast<uint32_t>(unit.position - p_.pass_first);
    if (part.tiles < tiles_[0]) {
      part.cut.bits = (place + lane_) | static_cast<uint32_t>(tiles_[0]) * StreamCut::kTile;
    }
    return part;
  }

  // Goes on to the next unit.
  __device__ __forceinline__ void Leave() {
#pragma unroll
    for (int c = 0; c + 1 < kTeamUnits; ++c) {
      first_[c] = first_[c + 1];
      tiles_[c] = tiles_[c + 1];
    }
  }

 private:
  __device__ __forceinline__ int32_t NumTiles(const StreamWorkUnit& unit) const {
    return (static_cast<int32_t>(unit.end - unit.begin) + p_.tile_tokens - 1) / p_.tile_tokens;
  }

  const StreamParams& p_;
  const int lane_;
  // For the lane's document of every work unit: the number of its first tile among the team's tiles, and the number of
  // its tiles.
  int32_t first_[kTeamUnits];
  int32_t tiles_[kTeamUnits];
  int32_t begin_ = 0;  // .. end_: the block's tiles
  int32_t end_ = 0;
};

}  // namespace maxsim::cuda::sm90
