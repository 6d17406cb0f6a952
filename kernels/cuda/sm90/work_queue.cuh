// Which candidates of which row tile a thread block scores: chunks, claimed from a counter a row tile, so that blocks
// that are done early help the others.
#pragma once

#include <cstdint>

#include "kernels/cuda/score_params.h"
#include "kernels/cuda/sm90/chunk_place.cuh"

namespace maxsim::cuda::sm90 {

// Consecutive candidates of one row tile. Used by one warp; `ordinal`, `begin`, `end` and `scale` are the lane's
// own candidate's.
struct Chunk {
  int32_t row_tile = 0;
  int32_t count = 0;      // 1 .. 32; 0: there is no more work
  uint32_t position = 0;  // of the first, in the row tile's list
  uint32_t ordinal = 0;   // documents are fewer than rows
  int32_t begin = 0;      // rows begin .. end of the token array, which has kWideMaxTokens at most
  int32_t end = 0;
  float scale = 1;  // of a quantised document
};

// A block begins in the row tile that its number names, of which it is dealt three quarters of its share: that costs no
// round trip. Then it claims from the same row tile, then takes a row tile that nobody has, then helps wherever
// candidates are left. Claims are asked for one chunk ahead.
//
// params.claims is [num_row_tiles + 2], all zero before the launch, and again after it: claimed candidates of each row
// tile, row tiles taken beyond the first gridDim.x, blocks that have finished.
class WorkQueue {
 public:
  __device__ __forceinline__ WorkQueue(const ScoreParams& params, int lane) : p_(params), lane_(lane) {
    Enter(static_cast<int32_t>(blockIdx.x % params.num_row_tiles));
    const uint32_t each = DealtEach(Homes(row_tile_), in_pass_);
    next_dealt_ = min(blockIdx.x / params.num_row_tiles * each, in_pass_);
    dealt_end_ = min(next_dealt_ + each, in_pass_);
    Ask();
  }

  // The next chunk, without places; one of no candidates when all are claimed.
  __device__ __forceinline__ Chunk Next() {
    if (next_dealt_ < dealt_end_) {
      const uint32_t first = next_dealt_;
      next_dealt_ += kDealtChunk;
      return Make(first, kDealtChunk, dealt_end_);
    }
    uint32_t first = Claimed();
    if (first >= in_pass_) first = FindWork();
    if (first == kNone) return {};
    Ask();
    return Make(first, static_cast<uint32_t>(p_.claim_candidates), in_pass_);
  }

  // Starts reading the lane's ordinal, and then, a chunk later, its place.
  __device__ __forceinline__ void ReadOrdinals(Chunk& chunk) const {
    if (lane_ >= chunk.count) return;
    const int64_t ordinals = p_.places.regular != 0
                                 ? p_.places.ordinals_begin + chunk.row_tile * p_.places.ordinals_stride
                                 : p_.row_tiles[chunk.row_tile].ordinals_begin;
    const uint32_t position = chunk.position + lane_;
    chunk.ordinal = ordinals < 0 ? position : p_.ordinals[ordinals + position];
  }
  template <bool kScales>
  __device__ __forceinline__ void ReadPlaces(Chunk& chunk) const {
    if (lane_ < chunk.count) ReadPlace<kScales>(p_, chunk);
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
  static constexpr uint32_t kDealtChunk = 32;
  static constexpr uint32_t kNone = ~uint32_t{0};

  __device__ __forceinline__ Chunk Make(uint32_t first, uint32_t count, uint32_t end) const {
    Chunk chunk;
    chunk.row_tile = row_tile_;
    chunk.count = static_cast<int32_t>(min(count, end - first));
    chunk.position = static_cast<uint32_t>(p_.pass_first) + first;
    return chunk;
  }

  // Blocks that begin in this row tile.
  __device__ __forceinline__ int32_t Homes(int32_t row_tile) const {
    const int32_t grid = static_cast<int32_t>(gridDim.x);
    return row_tile < grid ? (grid - row_tile + p_.num_row_tiles - 1) / p_.num_row_tiles : 0;
  }
  // Candidates that each of those is dealt, one behind the other; claims begin behind all of them.
  static __device__ __forceinline__ uint32_t DealtEach(int32_t homes, uint32_t in_pass) {
    if (homes == 0) return 0;
    return max(in_pass / 4 * 3 / static_cast<uint32_t>(homes), 1u);
  }
  __device__ __forceinline__ uint32_t InPass(int32_t row_tile) const {
    if (p_.places.regular != 0) return p_.places.regular;
    const int64_t count = min(p_.pass_count, p_.row_tiles[row_tile].num_candidates - p_.pass_first);
    return static_cast<uint32_t>(max(count, int64_t{0}));
  }

  __device__ __forceinline__ void Enter(int32_t row_tile) {
    row_tile_ = row_tile;
    in_pass_ = InPass(row_tile);
    const int32_t homes = Homes(row_tile);
    dealt_ = homes * DealtEach(homes, in_pass_);
  }
  __device__ __forceinline__ void Ask() {
    if (lane_ == 0) claimed_ = atomicAdd(p_.claims + row_tile_, static_cast<uint32_t>(p_.claim_candidates));
  }
  __device__ __forceinline__ uint32_t Claimed() const { return dealt_ + __shfl_sync(0xffffffffu, claimed_, 0); }

  // Leaves an exhausted row tile for one that has candidates left and claims some; kNone when there is none.
  __device__ __forceinline__ uint32_t FindWork() {
    // Row tiles that no block began with.
    while (static_cast<uint32_t>(p_.num_row_tiles) > gridDim.x) {
      uint32_t taken = 0;
      if (lane_ == 0) taken = atomicAdd(p_.claims + p_.num_row_tiles, 1u);
      const int64_t row_tile = static_cast<int64_t>(gridDim.x) + __shfl_sync(0xffffffffu, taken, 0);
      if (row_tile >= p_.num_row_tiles) break;
      Enter(static_cast<int32_t>(row_tile));
      Ask();
      if (const uint32_t first = Claimed(); first < in_pass_) return first;
    }
    // Any that others still work on, from the next one round.
    const int32_t start = row_tile_ + 1;
    for (int32_t seen = 0; seen < p_.num_row_tiles; seen += 32) {
      const int32_t mine = (start + seen + lane_) % p_.num_row_tiles;
      bool open = false;
      if (seen + lane_ < p_.num_row_tiles) {
        const uint32_t claimed = *static_cast<volatile uint32_t*>(p_.claims + mine);
        const int32_t homes = Homes(mine);
        const uint32_t in_pass = InPass(mine);
        open = homes * DealtEach(homes, in_pass) + claimed < in_pass;
      }
      for (uint32_t left = __ballot_sync(0xffffffffu, open); left != 0; left &= left - 1) {
        Enter((start + seen + __ffs(static_cast<int>(left)) - 1) % p_.num_row_tiles);
        Ask();
        if (const uint32_t first = Claimed(); first < in_pass_) return first;
      }
    }
    return kNone;
  }

  const ScoreParams& p_;
  const int lane_;
  int32_t row_tile_ = 0;
  // Counts of a pass, kMaxPassCandidates at most, and claims beyond.
  uint32_t in_pass_ = 0;  // candidates of row_tile_ in this pass
  uint32_t dealt_ = 0;    // of them to blocks that begin there
  uint32_t next_dealt_ = 0, dealt_end_ = 0;
  uint32_t claimed_ = 0;  // lane 0: what the last Ask returned
};

// The block's chunks one after another, with the places of their documents. Two are under way: while one is used, the
// other looks up its places. Nothing is looked up before the first one is there, which is on the block's way to its
// first tile. kScales: and its documents' scales.
template <bool kScales>
class ChunkReader {
 public:
  __device__ __forceinline__ ChunkReader(const ScoreParams& params, int lane) : queue_(params, lane) {
    first_ = queue_.Next();
    queue_.ReadOrdinals(first_);
    queue_.template ReadPlaces<kScales>(first_);
  }

  __device__ __forceinline__ Chunk First() const { return first_; }

  // The next chunk; one of no candidates when all are claimed.
  __device__ __forceinline__ Chunk Next() {
    Chunk chunk;
#pragma unroll 1
    do {
      chunk = placed_;
      Look();
    } while (chunk.count == 0 && UnderWay());
    return chunk;
  }

  // To be called now and then, after First: looks for what Next will want, so that it need not wait. Short when two
  // chunks are under way.
  __device__ __forceinline__ void LookAhead() {
    if (placed_.count == 0 && !is_over_) Look();
  }

  // To be called once, after the last Next.
  __device__ __forceinline__ void Finish() const { queue_.Finish(); }

 private:
  __device__ __forceinline__ bool UnderWay() const { return placed_.count > 0 || listed_.count > 0; }

  __device__ __forceinline__ void Look() {
    queue_.template ReadPlaces<kScales>(listed_);
    placed_ = listed_;
    listed_ = {};
    if (is_over_) return;
    listed_ = queue_.Next();
    queue_.ReadOrdinals(listed_);
    is_over_ = listed_.count == 0;
  }

  WorkQueue queue_;
  Chunk first_, placed_, listed_;
  bool is_over_ = false;
};

}  // namespace maxsim::cuda::sm90
