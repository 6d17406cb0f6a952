// Hands out work. A thread block claims a work unit, which consists of some candidates of one row tile (query rows that
// a thread block keeps), and scores them. Each row tile has one counter of claims, so thread blocks that finish early
// can help the others.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/document_location.cuh"
#include "kernels/cuda/score/hopper_common/params.h"

namespace maxsim::cuda::sm90 {

// Candidates of one row tile. One warp uses it.
struct WorkUnit {
  int32_t row_tile = 0;
  bool in_half = false;  // the row tile is a half one
  // Number of candidates, 1 .. 32; 0 if there is no more work. If candidates are ordered, it is only known to be above
  // 0 until Locate finds the number.
  int32_t count = 0;
  uint32_t first = 0;  // position of the first candidate in its list, or the number of the work unit of the order
  // The lane's own candidate.
  uint32_t ordinal = 0;   // documents are fewer than rows
  uint32_t position = 0;  // in the list
  int32_t begin = 0;      // rows begin .. end of the token array, which has kWideMaxTokens at most
  int32_t end = 0;
  float scale = 1;  // of a quantised document
};

// A thread block takes candidates in four steps. First it scores two or three quarters of its share of the row tile in
// which it starts; StartTiles assigns these, which costs no round trip to memory. Second it claims candidates from the
// same row tile. Third it takes row tiles in which no thread block has started. Last it claims from any row tile that
// has unclaimed candidates.
//
// If the candidates are ordered (params.order), a thread block begins with one work unit of the order and claims more
// work units one by one. In this case, "candidates" in the comments below means work units of the order.
//
// params.claims is [num_row_tiles + 2]: the number of claimed candidates of each row tile, the number of row tiles
// taken beyond the first gridDim.x, and the number of thread blocks that have finished. All are zero before and after
// the launch.
class WorkQueue {
 public:
  __device__ __forceinline__ WorkQueue(const WorkQueueParams& params, int lane) : p_(params), lane_(lane) {
    Enter(StartTileOf(blockIdx.x, params));
    const uint32_t each = AssignedEach(row_tile_, in_pass_);
    next_assigned_ = min(params.start_tiles.Quotient(blockIdx.x) * each, in_pass_);
    assigned_end_ = min(next_assigned_ + each, in_pass_);
  }

  __device__ __forceinline__ bool IsOrdered() const { return p_.order.placed != nullptr; }

  // Asks for the claim that Next will need, so that Next waits less.
  __device__ __forceinline__ void AskAhead() {
    if (next_assigned_ < assigned_end_ || is_asked_) return;
    Ask();
    is_asked_ = true;
  }

  // Returns the next work unit (candidates of one row tile). Locate then looks up where its documents lie. The work
  // unit has no candidates if all candidates are claimed.
  __device__ __forceinline__ WorkUnit Next() {
    if (next_assigned_ < assigned_end_) {
      const uint32_t first = next_assigned_;
      next_assigned_ += kAssignedUnit;
      return Make(first, kAssignedUnit, assigned_end_);
    }
    AskAhead();
    is_asked_ = false;
    uint32_t first = Claimed();
    if (first >= in_pass_) first = FindWork();
    if (first == kNone) return {};
    return Make(first, static_cast<uint32_t>(p_.claim_candidates), in_pass_);
  }

  // Looks up where the work unit's documents lie. For a work unit of the order it also finds their number.
  template <bool kScales>
  __device__ __forceinline__ void Locate(WorkUnit& unit) const {
    if (IsOrdered()) {
      if (unit.count > 0) LocateOrdered(unit);
      return;
    }
    if (lane_ >= unit.count) return;
    const int64_t ordinals = p_.pattern.regular != 0
                                 ? p_.pattern.ordinals_begin + unit.row_tile * p_.pattern.ordinals_stride
                                 : p_.row_tiles[unit.row_tile].ordinals_begin;
    unit.position = unit.first + lane_;
    unit.ordinal = ordinals < 0 ? unit.position : p_.ordinals[ordinals + unit.position];
    ReadLocation<kScales>(p_, unit);
  }

  // Must be called once, after the last Next. The last thread block that calls it zeroes the counters for the next
  // launch.
  __device__ __forceinline__ void Finish() const {
    uint32_t before = 0;
    if (lane_ == 0) {
      __threadfence();
      before = atomicAdd(p_.claims + p_.num_row_tiles + 1, 1u);
    }
    if (__shfl_sync(0xffffffffu, before, 0) + 1 != gridDim.x) return;
    __threadfence();
    for (int32_t i = lane_; i < p_.num_row_tiles + 2; i += 32) p_.claims[i] = 0;
  }

 private:
  static constexpr uint32_t kAssignedUnit = 32;
  static constexpr uint32_t kNone = ~uint32_t{0};

  __device__ __forceinline__ WorkUnit Make(uint32_t first, uint32_t count, uint32_t end) const {
    WorkUnit unit;
    unit.row_tile = row_tile_;
    unit.in_half = in_half_;
    unit.count = static_cast<int32_t>(min(count, end - first));
    unit.first = static_cast<uint32_t>(p_.pass_first) + first;
    return unit;
  }

  __device__ __forceinline__ void LocateOrdered(WorkUnit& unit) const {
    const int32_t begin = p_.row_tiles[unit.row_tile].order_begin;
    uint32_t bound = 0;
    if (lane_ < 2) bound = p_.order.units[begin + 1 + unit.first + lane_];
    const uint32_t first = __shfl_sync(0xffffffffu, bound, 0);
    unit.count = static_cast<int32_t>(__shfl_sync(0xffffffffu, bound, 1) - first);
    if (lane_ >= unit.count) return;
    const PlacedCandidate candidate = p_.order.placed[begin + first + lane_];
    unit.position = candidate.position;
    unit.begin = candidate.begin;
    unit.end = candidate.begin + candidate.tokens;
    unit.scale = candidate.scale;
  }

  // Returns how many thread blocks start in this row tile.
  __device__ __forceinline__ int32_t StartingBlocks(int32_t row_tile) const {
    return p_.start_tiles.blocks + (row_tile < p_.start_tiles.extra ? 1 : 0);
  }
  // Returns how many candidates are assigned to each thread block that starts in the row tile. The candidates of these
  // thread blocks follow one another, and claims begin after all of them.
  __device__ __forceinline__ uint32_t AssignedEach(int32_t row_tile, uint32_t in_pass) const {
    if (IsOrdered()) return StartingBlocks(row_tile) == 0 ? 0 : 1;
    if (p_.pattern.regular != 0) return p_.start_tiles.assigned[row_tile < p_.start_tiles.extra ? 1 : 0];
    return p_.start_tiles.Assigned(in_pass, StartingBlocks(row_tile));
  }
  __device__ __forceinline__ uint32_t InPass(int32_t row_tile) const {
    if (IsOrdered()) return p_.order.units[p_.row_tiles[row_tile].order_begin];
    if (p_.pattern.regular != 0) return p_.pattern.regular;
    const int64_t count = min(p_.pass_count, p_.row_tiles[row_tile].num_candidates - p_.pass_first);
    return static_cast<uint32_t>(max(count, int64_t{0}));
  }

  __device__ __forceinline__ void Enter(int32_t row_tile) {
    row_tile_ = row_tile;
    in_half_ = p_.half_tiles == kSomeHalfTiles ? p_.row_tiles[row_tile].IsHalf() : p_.half_tiles == kAllHalfTiles;
    in_pass_ = InPass(row_tile);
    assigned_ = StartingBlocks(row_tile) * AssignedEach(row_tile, in_pass_);
  }
  __device__ __forceinline__ void Ask() {
    const uint32_t count = IsOrdered() ? 1 : static_cast<uint32_t>(p_.claim_candidates);
    if (lane_ == 0) claimed_ = atomicAdd(p_.claims + row_tile_, count);
  }
  __device__ __forceinline__ uint32_t Claimed() const { return assigned_ + __shfl_sync(0xffffffffu, claimed_, 0); }

  // Leaves the current row tile, all of whose candidates are claimed, for one that has candidates left, and claims some
  // of them. Returns kNone if no row tile has any left.
  __device__ __forceinline__ uint32_t FindWork() {
    // First come row tiles that no thread block started with.
    while (static_cast<uint32_t>(p_.num_row_tiles) > gridDim.x) {
      uint32_t taken = 0;
      if (lane_ == 0) taken = atomicAdd(p_.claims + p_.num_row_tiles, 1u);
      const int64_t row_tile = static_cast<int64_t>(gridDim.x) + __shfl_sync(0xffffffffu, taken, 0);
      if (row_tile >= p_.num_row_tiles) break;
      Enter(static_cast<int32_t>(row_tile));
      Ask();
      if (const uint32_t first = Claimed(); first < in_pass_) return first;
    }
    // Then come the row tiles that other thread blocks still work on, in cyclic order from the next one on.
    const int32_t start = row_tile_ + 1;
    for (int32_t seen = 0; seen < p_.num_row_tiles; seen += 32) {
      const int32_t mine = (start + seen + lane_) % p_.num_row_tiles;
      bool open = false;
      if (seen + lane_ < p_.num_row_tiles) {
        const uint32_t claimed = *static_cast<volatile uint32_t*>(p_.claims + mine);
        const uint32_t in_pass = InPass(mine);
        open = StartingBlocks(mine) * AssignedEach(mine, in_pass) + claimed < in_pass;
      }
      for (uint32_t left = __ballot_sync(0xffffffffu, open); left != 0; left &= left - 1) {
        Enter((start + seen + __ffs(static_cast<int>(left)) - 1) % p_.num_row_tiles);
        Ask();
        if (const uint32_t first = Claimed(); first < in_pass_) return first;
      }
    }
    return kNone;
  }

  const WorkQueueParams& p_;
  const int lane_;
  int32_t row_tile_ = 0;
  bool in_half_ = false;
  // These members count candidates of a pass (one launch). A pass has at most kMaxPassCandidates; claims may count
  // beyond that.
  uint32_t in_pass_ = 0;   // candidates of row_tile_ in this pass
  uint32_t assigned_ = 0;  // those of in_pass_ that are assigned to thread blocks that start in row_tile_
  uint32_t next_assigned_ = 0, assigned_end_ = 0;
  uint32_t claimed_ = 0;   // lane 0: the claim that the last Ask returned
  bool is_asked_ = false;  // whether no Next has used claimed_ yet
};

}  // namespace maxsim::cuda::sm90
