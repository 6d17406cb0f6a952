// Which candidates of which row tile a thread block scores: chunks, claimed from a counter a row tile, so that blocks
// that are done early help the others.
#pragma once

#include <cstdint>

#include "kernels/cuda/score_params.h"

namespace maxsim::cuda::sm90 {

// Consecutive candidates of one row tile. Used by one warp; `ordinal`, `begin`, `end` and `scale` are the lane's
// own candidate's.
struct Chunk {
  int32_t row_tile = 0;
  int32_t count = 0;     // 1 .. 32; 0: there is no more work
  int64_t position = 0;  // of the first, in the row tile's list
  int64_t ordinal = 0;
  int64_t begin = 0;  // rows begin .. end of the token array
  int64_t end = 0;
  float scale = 1;  // of a quantised document
};

// A block begins with a chunk that its number names (no round trip), then claims from the same row tile, then takes a
// row tile that nobody has, then helps wherever candidates are left. Claims are asked for one chunk ahead.
//
// params.claims is [num_row_tiles + 2], all zero before the launch, and again after it: claimed candidates of each row
// tile, row tiles taken beyond the first gridDim.x, blocks that have finished.
class WorkQueue {
 public:
  __device__ __forceinline__ WorkQueue(const ScoreParams& params, int lane) : p_(params), lane_(lane) {
    Enter(static_cast<int32_t>(blockIdx.x % params.num_row_tiles));
    first_ = static_cast<int64_t>(blockIdx.x / params.num_row_tiles) * p_.claim_candidates;
    Ask();
  }

  // The next chunk, without places; one of no candidates when all are claimed.
  __device__ __forceinline__ Chunk Next() {
    if (!begun_) {
      begun_ = true;
      if (first_ < in_pass_) return Make(first_);
    } else if (const int64_t first = Claimed(); first < in_pass_) {
      Ask();
      return Make(first);
    }
    const int64_t first = FindWork();
    if (first < 0) return {};
    Ask();
    return Make(first);
  }

  // Starts reading the lane's ordinal, and then, a chunk later, its place.
  __device__ __forceinline__ void ReadOrdinals(Chunk& chunk) const {
    if (lane_ >= chunk.count) return;
    const int64_t ordinals = p_.row_tiles[chunk.row_tile].ordinals_begin;
    const int64_t position = chunk.position + lane_;
    chunk.ordinal = ordinals < 0 ? position : p_.ordinals[ordinals + position];
  }
  template <bool kScales>
  __device__ __forceinline__ void ReadPlaces(Chunk& chunk) const {
    if (lane_ >= chunk.count) return;
    if constexpr (kScales) chunk.scale = p_.scales[chunk.ordinal];
    chunk.begin = p_.offsets[chunk.ordinal];
    chunk.end = p_.offsets[chunk.ordinal + 1];
  }

  // To be called once, after the last Next. The last block zeroes the counters for the next launch.
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
  __device__ __forceinline__ Chunk Make(int64_t first) const {
    Chunk chunk;
    chunk.row_tile = row_tile_;
    chunk.count = static_cast<int32_t>(min(static_cast<int64_t>(p_.claim_candidates), in_pass_ - first));
    chunk.position = p_.pass_first + first;
    return chunk;
  }

  // Blocks whose first chunk is of this row tile; claims begin behind theirs.
  __device__ __forceinline__ int64_t Homes(int32_t row_tile) const {
    const int32_t grid = static_cast<int32_t>(gridDim.x);
    return row_tile < grid ? (grid - row_tile + p_.num_row_tiles - 1) / p_.num_row_tiles : 0;
  }
  __device__ __forceinline__ int64_t InPass(int32_t row_tile) const {
    return min(p_.pass_count, p_.row_tiles[row_tile].num_candidates - p_.pass_first);
  }

  __device__ __forceinline__ void Enter(int32_t row_tile) {
    row_tile_ = row_tile;
    in_pass_ = InPass(row_tile);
  }
  __device__ __forceinline__ void Ask() {
    if (lane_ == 0) claimed_ = atomicAdd(p_.claims + row_tile_, static_cast<uint32_t>(p_.claim_candidates));
  }
  __device__ __forceinline__ int64_t Claimed() const {
    return Homes(row_tile_) * p_.claim_candidates + __shfl_sync(0xffffffffu, claimed_, 0);
  }

  // Leaves an exhausted row tile for one that has candidates left and claims some; -1 when there is none.
  __device__ __forceinline__ int64_t FindWork() {
    // Row tiles that no block began with.
    while (static_cast<int64_t>(p_.num_row_tiles) > gridDim.x) {
      uint32_t taken = 0;
      if (lane_ == 0) taken = atomicAdd(p_.claims + p_.num_row_tiles, 1u);
      const int64_t row_tile = static_cast<int64_t>(gridDim.x) + __shfl_sync(0xffffffffu, taken, 0);
      if (row_tile >= p_.num_row_tiles) break;
      Enter(static_cast<int32_t>(row_tile));
      Ask();
      if (const int64_t first = Claimed(); first < in_pass_) return first;
    }
    // Any that others still work on, from the next one round.
    const int32_t start = row_tile_ + 1;
    for (int32_t seen = 0; seen < p_.num_row_tiles; seen += 32) {
      const int32_t mine = (start + seen + lane_) % p_.num_row_tiles;
      bool open = false;
      if (seen + lane_ < p_.num_row_tiles) {
        const uint32_t claimed = *static_cast<volatile uint32_t*>(p_.claims + mine);
        open = Homes(mine) * p_.claim_candidates + claimed < InPass(mine);
      }
      for (uint32_t left = __ballot_sync(0xffffffffu, open); left != 0; left &= left - 1) {
        Enter((start + seen + __ffs(static_cast<int>(left)) - 1) % p_.num_row_tiles);
        Ask();
        if (const int64_t first = Claimed(); first < in_pass_) return first;
      }
    }
    return -1;
  }

  const ScoreParams& p_;
  const int lane_;
  int32_t row_tile_ = 0;
  int64_t in_pass_ = 0;   // candidates of row_tile_ in this pass
  int64_t first_ = 0;     // of the static chunk
  uint32_t claimed_ = 0;  // lane 0: what the last Ask returned
  bool begun_ = false;
};

// Calls load(chunk) for every chunk of the block's, with the places of its documents. Two are under way: while one is
// loaded, the other looks up its places. kScales: and its documents' scales.
template <bool kScales, class Load>
__device__ __forceinline__ void ForEachChunk(WorkQueue& queue, Load load) {
  Chunk placed = queue.Next();
  queue.ReadOrdinals(placed);
  queue.ReadPlaces<kScales>(placed);
  Chunk listed = queue.Next();
  queue.ReadOrdinals(listed);
  while (placed.count > 0) {
    queue.ReadPlaces<kScales>(listed);
    load(placed);
    placed = listed;
    listed = listed.count > 0 ? queue.Next() : Chunk{};
    queue.ReadOrdinals(listed);
  }
}

}  // namespace maxsim::cuda::sm90
