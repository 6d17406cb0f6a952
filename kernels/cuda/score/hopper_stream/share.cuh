// Says which candidates a thread block of a stream kernel scores. First comes an assigned share, which follows from the
// thread block's number and the parameters, so that the thread block need not read anything before its first copies.
// Then it claims candidates that are not assigned, so that all thread blocks end at about the same time, even if
// documents differ in length. With teams, the share is the team's, and the team's thread blocks divide it (team.cuh).
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/document_location.cuh"
#include "kernels/cuda/score/hopper_stream/params.h"

namespace maxsim::cuda::sm90 {

// Consecutive candidates of one row tile (the query rows that are scored together). One warp uses it. `ordinal`,
// `begin`, `end` and `scale` belong to the lane's own candidate; StreamShare::ReadOrdinals and ReadLocations fill them
// in.
struct StreamWorkUnit {
  int32_t row_tile = 0;
  int32_t count = 0;            // 1 .. 32; 0: there is no more work
  int64_t position = 0;         // of the first, in the row tile's list
  int64_t ordinals_begin = -1;  // of the row tile
  int64_t ordinal = 0;
  int64_t begin = 0;  // rows begin .. end of the token array
  int64_t end = 0;
  float scale = 0;  // of a quantised document
};

// Returns the number of the thread block's team (thread blocks that share documents), or the thread block's own number
// if there are no teams.
template <bool kTeams>
__device__ __forceinline__ int32_t OwnTeam(const StreamParams& p) {
  return static_cast<int32_t>(kTeams ? __umulhi(blockIdx.x, p.teams.inverse) : blockIdx.x);
}

// Returns the first of the candidates that are assigned to a team.
__device__ __forceinline__ int64_t AssignedBegin(const StreamWork& work, int32_t team) {
  return team * work.each + min(team, work.extra_until);
}

// Returns the number of the row tile (query rows) that a thread block, or its team, begins with. Returns -1 if the row
// tiles must be read to find it.
template <bool kTeams>
__device__ __forceinline__ int32_t FirstRowTile(const StreamParams& p) {
  if (p.num_row_tiles == 1) return 0;
  if (p.pattern.regular == 0) return -1;
  const uint32_t first = static_cast<uint32_t>(AssignedBegin(p.work, OwnTeam<kTeams>(p)));
  return min(static_cast<int32_t>(first / p.pattern.regular), p.num_row_tiles - 1);
}

// The share of a thread block. The candidates of all row tiles are numbered consecutively, and a thread block takes its
// candidates in ascending order. params.claims is zero before the launch and after it: [0] counts claims, and [1]
// counts the thread blocks that have finished. With kTeams the share belongs to a team, and all candidates are
// assigned.
template <bool kTeams>
class StreamShare {
 public:
  __device__ __forceinline__ StreamShare(const StreamParams& params, int lane) : p_(params), lane_(lane) {
    const int32_t team = OwnTeam<kTeams>(p_);
    next_ = AssignedBegin(p_.work, team);
    end_ = AssignedBegin(p_.work, team + 1);
    open_ = p_.work.assigned < p_.work.total;
    Ask();
  }

  // Returns the thread block's first work unit if it follows from the parameters alone. Otherwise returns a work unit
  // without candidates, although Next may still return some. The caller looks up where the candidates' tokens are by
  // ReadOrdinals and then ReadLocations.
  __device__ __forceinline__ StreamWorkUnit First() {
    if (p_.pattern.regular == 0 || next_ >= end_) return {};
    SeekRegular();
    return Take();
  }

  // Returns the next work unit of the share that was assigned in advance, and never claims more. The work unit has no
  // candidates if the share is used up. The caller looks up where the candidates' tokens are by ReadOrdinals and then
  // ReadLocations. All row tiles must have the same number of candidates. A caller uses either this or First and Next,
  // not both.
  __device__ __forceinline__ StreamWorkUnit NextAssigned() {
    if (next_ >= end_) return {};
    if (next_ >= tile_end_) SeekRegular();
    return Take();
  }

  // Returns the next work unit: first those of the assigned share, then claimed ones. The work unit has no candidates
  // if there are no more. The caller looks up where the candidates' tokens are by ReadOrdinals and then ReadLocations.
  __device__ __forceinline__ StreamWorkUnit Next() {
    if (next_ >= end_ && !Claim()) return {};
    if (next_ >= tile_end_) {
      if (p_.pattern.regular != 0) {
        SeekRegular();
      } else {
        SearchRowTile();
      }
    }
    return Take();
  }

  // Starts reading the lane's ordinal.
  __device__ __forceinline__ void ReadOrdinals(StreamWorkUnit& unit) const {
    if (lane_ >= unit.count) return;
    const int64_t position = unit.position + lane_;
    unit.ordinal = unit.ordinals_begin < 0 ? position : p_.ordinals[unit.ordinals_begin + position];
  }
  // Starts to read where the lane's document lies and, with kScales, its scale. Must be called for a work unit after
  // ReadOrdinals.
  template <bool kScales>
  __device__ __forceinline__ void ReadLocations(StreamWorkUnit& unit) const {
    if (lane_ < unit.count) ReadLocation<kScales>(p_, unit);
  }

  // Must be called once, after the last Next. The last thread block that calls it zeroes the counters for the next
  // launch.
  __device__ __forceinline__ void Finish() const {
    if (p_.work.assigned == p_.work.total) return;
    if (lane_ != 0) return;
    __threadfence();
    if (atomicAdd(p_.claims + 1, 1u) + 1 != gridDim.x) return;
    __threadfence();
    p_.claims[0] = 0;
    p_.claims[1] = 0;
  }

 private:
  // Takes up to 32 candidates of row_tile_.
  __device__ __forceinline__ StreamWorkUnit Take() {
    StreamWorkUnit unit;
    unit.row_tile = row_tile_;
    unit.count = static_cast<int32_t>(min(int64_t{32}, min(end_, tile_end_) - next_));
    unit.position = p_.pass_first + next_ - tile_begin_;
    unit.ordinals_begin = ordinals_begin_;
    next_ += unit.count;
    return unit;
  }

  // Asks for the next claim, one claim ahead of its use.
  __device__ __forceinline__ void Ask() {
    if (open_ && lane_ == 0) asked_ = atomicAdd(p_.claims, 1u);
  }

  __device__ __forceinline__ bool Claim() {
    if (!open_) return false;
    const StreamWork& work = p_.work;
    const int64_t claim = __shfl_sync(0xffffffffu, asked_, 0);
    const int64_t fine = claim - work.coarse_claims;
    const int64_t coarse_end = work.assigned + work.coarse_claims * work.coarse;
    next_ = fine < 0 ? work.assigned + claim * work.coarse : coarse_end + fine * work.fine;
    end_ = min(next_ + (fine < 0 ? work.coarse : work.fine), work.total);
    open_ = next_ < work.total;
    Ask();
    return open_;
  }

  // Goes on to the row tile of candidate next_. For calls in which all row tiles have the same number of candidates.
  __device__ __forceinline__ void SeekRegular() {
    if (p_.num_row_tiles == 1) {
      tile_end_ = p_.work.total;
      ordinals_begin_ = p_.pattern.ordinals_begin;
    } else {
      row_tile_ = static_cast<int32_t>(static_cast<uint32_t>(next_) / p_.pattern.regular);
      tile_begin_ = int64_t{row_tile_} * p_.pattern.regular;
      tile_end_ = tile_begin_ + p_.pattern.regular;
      ordinals_begin_ = p_.pattern.ordinals_begin + row_tile_ * p_.pattern.ordinals_stride;
    }
  }

  // Goes on to the row tile of candidate next_. For calls in which row tiles may have different numbers of candidates.
  // The warp reads 32 row tiles at a time, one per lane.
  __device__ __forceinline__ void SearchRowTile() {
    int64_t begin = tile_end_;  // of the row tile after the present one
    for (int32_t first = tile_end_ == 0 ? 0 : row_tile_ + 1; first < p_.num_row_tiles; first += 32) {
      const int32_t mine = min(first + lane_, p_.num_row_tiles - 1);
      const int64_t in_pass = min(p_.pass_count, p_.row_tiles[mine].num_candidates - p_.pass_first);
      const int64_t ordinals = p_.row_tiles[mine].ordinals_begin;
      int64_t end = first + lane_ < p_.num_row_tiles ? max(in_pass, int64_t{0}) : 0;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const int64_t below = __shfl_up_sync(0xffffffffu, end, distance);
        if (lane_ >= distance) end += below;
      }
      end += begin;
      const uint32_t behind = __ballot_sync(0xffffffffu, next_ < end);
      const int source = behind != 0 ? __ffs(static_cast<int>(behind)) - 1 : 31;
      const int64_t below = __shfl_up_sync(0xffffffffu, end, 1);
      const int64_t tile_begin = __shfl_sync(0xffffffffu, lane_ == 0 ? begin : below, source);
      begin = __shfl_sync(0xffffffffu, end, source);
      if (behind == 0) continue;
      row_tile_ = first + source;
      tile_begin_ = tile_begin;
      tile_end_ = begin;
      ordinals_begin_ = __shfl_sync(0xffffffffu, ordinals, source);
      return;
    }
  }

  const StreamParams& p_;
  const int lane_;
  int64_t next_;  // next_ .. end_: the candidates to take next
  int64_t end_;
  bool open_;           // there may be candidates to claim
  uint32_t asked_ = 0;  // lane 0: the claim that was asked for
  int32_t row_tile_ = 0;
  int64_t tile_begin_ = 0;  // candidates of row_tile_; none before the first is sought
  int64_t tile_end_ = 0;
  int64_t ordinals_begin_ = -1;
};

}  // namespace maxsim::cuda::sm90
