// The ring of token tiles of a stream kernel, in shared memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_stream/params.h"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/shares.h"

namespace maxsim::cuda::sm90 {

// Describes a token tile to the warp that multiplies it. Each pipeline stage has one entry.
struct StreamEntry {
  uint32_t counts;    // tokens of the tile, kCut, kQueryPhase, tiles of the document that are the block's; 0 ends the
                      // warp's work
  uint32_t position;  // of the document in its list of candidates
  uint32_t place;     // row tile * kStreamSlots + slot of the document's maxima
  uint32_t scale;     // of a quantised document: the bits of an FP32

  // A bit of `counts`: other thread blocks have tiles of this document, too. The ring's Cut then says where the maxima
  // of all thread blocks are combined.
  static constexpr uint32_t kCut = 1u << 14;
  // The parity of the phase of the barrier QueryFull in which the row tile's rows arrive.
  static constexpr uint32_t kQueryPhase = 1u << 15;
  // The bits from this one up count the thread block's tiles of the document: at most 8,192 (of 8 tokens). The lowest
  // bits count the tile's tokens: at most 512 (rows of 16 bytes).
  static constexpr uint32_t kTile = 1u << 16;

  __device__ __forceinline__ int NumTokens() const { return static_cast<int>(counts & (kCut - 1)); }
  __device__ __forceinline__ bool IsCut() const { return (counts & kCut) != 0; }
  __device__ __forceinline__ uint32_t QueryPhase() const { return counts / kQueryPhase & 1; }
  __device__ __forceinline__ uint32_t NumTiles() const { return counts / kTile; }
};
static_assert(sizeof(StreamEntry) == kStreamEntryBytes);

// For a document with tiles in several thread blocks: its place in StreamTeams, and the number of all its tiles. The
// value is never 0.
struct StreamCut {
  static constexpr uint32_t kTile = 1u << 16;
  static_assert(kMaxTeamCandidates <= kTile);

  uint32_t bits;

  __device__ __forceinline__ uint32_t Place() const { return bits & (kTile - 1); }
  __device__ __forceinline__ uint32_t NumTiles() const { return bits / kTile; }
};

// Addresses in shared memory. If the shape is a compile-time constant, the offsets become constants in the
// instructions.
class StreamRing {
 public:
  __device__ __forceinline__ StreamRing(uint32_t base, const StreamShape& shape)
      : base_(base), shape_(shape), layout_(shape.Layout()) {}

  __device__ __forceinline__ int Stages() const { return shape_.stages; }
  __device__ __forceinline__ int Warps() const { return shape_.warps; }
  __device__ __forceinline__ uint32_t Tile(int stage) const { return base_ + stage * shape_.stage_bytes; }
  __device__ __forceinline__ uint32_t Query() const { return base_ + layout_.query; }
  __device__ __forceinline__ uint32_t Entry(int stage) const {
    return base_ + layout_.entries + stage * kStreamEntryBytes;
  }
  __device__ __forceinline__ uint32_t Full(int stage) const { return base_ + layout_.full + stage * 8; }
  __device__ __forceinline__ uint32_t Empty(int stage) const { return base_ + layout_.empty + stage * 8; }
  __device__ __forceinline__ uint32_t QueryFull() const { return base_ + layout_.query_full; }
  // Returns the address of a document's maxima so far: one per row, converted by Ordered (sums.cuh).
  __device__ __forceinline__ uint32_t Maxima(int slot) const {
    return base_ + layout_.maxima + slot * kQueryTileTokens * 4;
  }
  // Returns the address of the number of the document's tiles that have been added.
  __device__ __forceinline__ uint32_t Count(int slot) const { return base_ + layout_.counts + slot * 4; }
  // Returns the address of the stage's StreamCut. The StreamCut is set only if the entry has kCut.
  __device__ __forceinline__ uint32_t Cut(int stage) const { return base_ + layout_.cuts + stage * 4; }

 private:
  uint32_t base_;
  StreamShape shape_;
  StreamLayout layout_;
};

// Returns the shape of the ring of a launch with wide rows, which lie in shared memory.
__device__ __forceinline__ StreamShape SharedShape(const StreamParams& p) {
  return {p.tile_tokens, p.tile_tokens * p.row_bytes, p.stages, static_cast<int32_t>(blockDim.x) / 32 - 1,
          kQueryTileTokens * StreamQueryPitch(p.row_bytes)};
}

}  // namespace maxsim::cuda::sm90
