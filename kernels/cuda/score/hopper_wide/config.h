// The sizes and the shared memory of the wide kernels: what the plan and the kernels both compute from.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/config.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"

namespace maxsim {

// The wide kernels. Bytes of a row in one swizzled half of a stage; threads, of which two warpgroups multiply.
inline constexpr int32_t kWideHalfBytes = 128;
inline constexpr int32_t kWideMaxRowBytes = 2 * kWideHalfBytes;
inline constexpr int32_t kWideThreads = 384;
inline constexpr int32_t kWideMultipliers = 8;   // warps
inline constexpr int32_t kWideAlignment = 1024;  // of the stages, and so of all of it
// A row is named by a signed 32-bit number.
inline constexpr int64_t kWideMaxTokens = (int64_t{1} << 31) - 1 - kWideTokens;

// Halves of a row of `steps` steps, and stages of the ring, which takes nearly all of the shared memory.
constexpr int32_t WideHalves(int32_t steps) { return steps * kStepBytes <= kWideHalfBytes ? 1 : 2; }
constexpr int32_t WideStages(int32_t halves) { return halves == 1 ? 11 : 6; }

// Documents that may end in a wide tile, and so its pieces: once a piece goes on in the next tile, this one is full.
// What a multiplying warp keeps of each until it is summed: a lane's two maxima of both sets of rows.
inline constexpr int32_t kWideMostEnds = 8;
inline constexpr int32_t kWideEndBytes = 2 * 2 * 32 * 4;

// Where the parts of a wide kernel's shared memory begin, in bytes.
struct WideLayout {
  int32_t stage_bytes;
  int32_t entries;    // [stages] descriptions of token tiles
  int32_t notes;      // [stages] of the pieces of token tiles
  int32_t scratch;    // [kWideMultipliers][kWideMostEnds] documents that have ended
  int32_t weights;    // [kWideMultipliers][kQueryTileTokens] of the rows that a warp has
  int32_t slot;       // of the work unit that is handed over
  int32_t described;  // [stages] barriers of 8 bytes
  int32_t full;       // [stages] barriers
  int32_t whole;      // [stages] barriers
  int32_t empty;      // [stages] barriers
  int32_t slot_barriers;
  int32_t total;
};

constexpr WideLayout WideLayoutOf(int32_t halves) {
  const int32_t stages = WideStages(halves);
  WideLayout layout{};
  layout.stage_bytes = halves * kWideTokens * kWideHalfBytes;
  layout.entries = stages * layout.stage_bytes;
  layout.notes = layout.entries + stages * TileEntryBytes(kWideMostEnds);
  layout.scratch = layout.notes + stages * kWideMostEnds * kPieceNoteBytes;
  layout.weights = layout.scratch + kWideMultipliers * kWideMostEnds * kWideEndBytes;
  layout.slot = layout.weights + kWideMultipliers * kQueryTileTokens * 4;
  layout.described = layout.slot + kUnitSlotBytes;
  layout.full = layout.described + stages * 8;
  layout.whole = layout.full + stages * 8;
  layout.empty = layout.whole + stages * 8;
  layout.slot_barriers = layout.empty + stages * 8;
  layout.total = layout.slot_barriers + kUnitBarrierBytes;
  return layout;
}

}  // namespace maxsim
