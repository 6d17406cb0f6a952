// The tilings that the scoring kernels are compiled for, their sizes and their names. A tiling is a kernel with its
// tile sizes.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/plan/rows.h"

namespace maxsim {

// The tilings that the scoring kernels are compiled for.
enum class ScoreTile : uint8_t {
  kRows32Narrow,  // one query tile, rows of at most 128 bytes
  kRows32,        // one query tile: a short query, bound by the memory
  kRows64,        // two query tiles: short queries stacked by two, or a query of up to 64 tokens
  kRows128,       // four query tiles: long or stacked queries, bound by the tensor cores; rows of one chain only
  // The tilings below need Hopper and do not score F32.
  kWide128,  // rows of at most 256 bytes, four query tiles; documents go to two warpgroups in turn
  // Rows have at most 256 bytes. Eight query tiles are divided over both warpgroups; four or fewer are scored as in
  // kWide128.
  kWide256,
  kStream32,    // rows of at most 4,064 bytes, one query tile, at the memory's pace; also short calls
  kDeep128,     // rows of 257 to 2,048 bytes, four query tiles; each of two warpgroups has its own document
  kDeep256,     // rows of 257 to 2,048 bytes, eight query tiles over both warpgroups
  kResidual32,  // residual codes: one query tile. No other tiling scores these, and it scores nothing else.
};

// The tilings that a plan may choose from, for documents that are not residual codes.
inline constexpr ScoreTile kAllScoreTiles[] = {ScoreTile::kRows32Narrow, ScoreTile::kRows32,  ScoreTile::kRows64,
                                               ScoreTile::kRows128,      ScoreTile::kWide128, ScoreTile::kWide256,
                                               ScoreTile::kStream32,     ScoreTile::kDeep128, ScoreTile::kDeep256};

constexpr bool IsStream(ScoreTile tile) { return tile == ScoreTile::kStream32; }

constexpr bool IsWide(ScoreTile tile) { return tile == ScoreTile::kWide128 || tile == ScoreTile::kWide256; }
constexpr bool IsDeep(ScoreTile tile) { return tile == ScoreTile::kDeep128 || tile == ScoreTile::kDeep256; }

// Returns whether several short queries, or tails of longer ones, may share a query tile.
constexpr bool MayShareQueryTiles(ScoreTile tile) { return IsWide(tile) || IsDeep(tile); }

// Returns whether the tiling is one of the kernels for Hopper
// (kernels/cuda/score/hopper_{wide,deep,stream}/kernel.cuh); the others run on everything from sm_80 on.
constexpr bool IsHopper(ScoreTile tile) { return IsWide(tile) || IsDeep(tile) || IsStream(tile); }

// A token tile of the wide kernels has kWideTokens tokens, one of the deep kernels at most kDeepTokens.
inline constexpr int32_t kWideTokens = 128;
inline constexpr int32_t kDeepTokens = 192;

// A wide kernel's row tile of at most this many query tiles (half of the largest row tile) is a half row tile: both
// warpgroups hold all of its rows, and take documents in turn.
inline constexpr int32_t kHalfTileQueryTiles = 4;

// The constants of a tiling (a kernel with its tile sizes). Both the plan and the kernels use these constants. Tilings
// for Hopper use only rows, tokens and min_blocks.
struct TileTraits {
  int32_t rows;          // of a row tile
  int32_t tokens;        // of a token tile
  int32_t chunk_bytes;   // bytes of a row that one pipeline stage holds
  int32_t warps_rows;    // warps side by side along the rows
  int32_t warps_tokens;  // warps side by side along the tokens
  int32_t min_blocks;    // thread blocks that fit a multiprocessor by registers (__launch_bounds__)

  constexpr int32_t warps() const { return warps_rows * warps_tokens; }
  constexpr int32_t threads() const { return 32 * warps(); }
  constexpr int32_t query_tiles() const { return rows / kQueryTileTokens; }
  // Returns the distance in bytes between rows of a stage in shared memory. ldmatrix reads eight consecutive rows at
  // once, and 16 bytes of padding put them into different banks (row bytes are a multiple of 32, so the pitch is an odd
  // multiple of 16).
  constexpr int32_t pitch() const { return chunk_bytes + 16; }
};

constexpr TileTraits TraitsOf(ScoreTile tile) {
  switch (tile) {
    case ScoreTile::kRows32Narrow:
      return {32, 128, 128, 1, 4, 3};
    case ScoreTile::kRows32:
      return {32, 64, 256, 1, 4, 3};
    case ScoreTile::kRows64:
      return {64, 64, 256, 2, 2, 3};
    case ScoreTile::kRows128:
      return {128, 128, 128, 2, 4, 2};
    case ScoreTile::kWide128:
      return {128, kWideTokens, 0, 0, 0, 1};
    case ScoreTile::kWide256:
      return {256, kWideTokens, 0, 0, 0, 1};
    case ScoreTile::kStream32:
      return {32, 0, 0, 0, 0, 1};
    case ScoreTile::kDeep128:
      return {128, kDeepTokens, 0, 0, 0, 1};
    case ScoreTile::kDeep256:
      return {256, kDeepTokens, 0, 0, 0, 1};
    case ScoreTile::kResidual32:
      return {32, 32, 0, 1, 4, 3};
  }
  return {};
}

// Returns the name of a tiling in logs: "rows32".
std::string Name(ScoreTile tile);

}  // namespace maxsim
