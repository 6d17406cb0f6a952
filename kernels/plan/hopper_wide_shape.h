// The sizes and the shared memory of the wide kernels, as both the plan and the kernels compute them.
#pragma once

#include <cstdint>

#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"

namespace maxsim {

// Each half of a pipeline stage has kWideHalfBytes bytes of every row, swizzled. Two of the three warpgroups of a
// thread block multiply.
inline constexpr int32_t kWideHalfBytes = 128;
inline constexpr int32_t kWideMaxRowBytes = 2 * kWideHalfBytes;
inline constexpr int32_t kWideThreads = 384;
inline constexpr int32_t kWideMultipliers = 8;   // warps
inline constexpr int32_t kWideAlignment = 1024;  // of the stages, and so of the whole shared memory
// Maximum number of tokens of all documents together. Kernels number rows in signed 32 bits.
inline constexpr int64_t kWideMaxTokens = (int64_t{1} << 31) - 1 - kWideTokens;

// WideHalves returns the number of halves in a row of `steps` steps. WideStages returns the number of stages of the
// ring, which takes nearly all of the shared memory.
constexpr int32_t WideHalves(int32_t steps) { return steps * kStepBytes <= kWideHalfBytes ? 1 : 2; }
constexpr int32_t WideStages(int32_t halves) { return halves == 1 ? 11 : 6; }

// At most kWideMostEnds documents end in a wide tile. The tile also has at most that many pieces, because it is full
// once a piece continues in the next tile. Until a document's maxima are summed, each warp keeps kWideEndBytes for it:
// two maxima per lane and set of rows.
inline constexpr int32_t kWideMostEnds = 8;
inline constexpr int32_t kWideEndBytes = 2 * 2 * 32 * 4;

// The shared memory of a wide kernel whose rows have kHalves halves. Kernels compute addresses in it by offsetof.
template <int32_t kHalves>
struct WideShared {
  static constexpr int32_t kStages = WideStages(kHalves);

  // Token tiles: for each half of the columns, kWideTokens swizzled rows in the layout of tensor copies and wgmma.
  uint8_t tiles[kStages][kHalves][kWideTokens][kWideHalfBytes];
  TileSpace<kWideMostEnds> entries[kStages];
  NotesSpace<kWideMostEnds> notes[kStages];
  // For each multiplying warp, the maxima of the documents that have ended, and the weights of its rows.
  alignas(16) uint8_t scratch[kWideMultipliers][kWideMostEnds][kWideEndBytes];
  alignas(16) float weights[kWideMultipliers][kQueryTileTokens];
  WorkUnitSpace slot;  // of the work unit that is handed over
  // Barriers of each stage, in this order: the tile's description is written; its copies have arrived; the last octet
  // of each document is filled up; the multiplying warps are done with the tile.
  uint64_t described[kStages];
  uint64_t full[kStages];
  uint64_t whole[kStages];
  uint64_t empty[kStages];
  uint64_t slot_barriers[kUnitBarriers];

  static_assert(kHalves * kWideTokens * kWideHalfBytes % kWideAlignment == 0, "every token tile is aligned");
};

// Returns the size of the shared memory in bytes.
constexpr int32_t WideSharedBytes(int32_t halves) {
  return static_cast<int32_t>(halves == 1 ? sizeof(WideShared<1>) : sizeof(WideShared<2>));
}

}  // namespace maxsim
