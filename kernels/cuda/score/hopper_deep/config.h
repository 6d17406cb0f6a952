// The shared memory of the deep kernels (kernels/cuda/score/hopper_deep/kernel.cuh): what plan and kernel both compute
// from.
//
// A row is cut into *column chunks* of 128 bytes, and a stage of the ring holds a chunk of a token tile, or with
// kDeep128 of one for each of the two warpgroups. The row tile's chunks stay in shared memory where there is room for
// them and three stages; otherwise a stage holds the row tile's chunk as well.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/config.h"
#include "kernels/cuda/score/portable/config.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"

namespace maxsim {

inline constexpr int32_t kDeepChunkBytes = 128;
inline constexpr int32_t kDeepMaxRowBytes = kChainColumns * 2;
inline constexpr int32_t kDeepThreads =
    384;  // two warpgroups that multiply, and one of whose warps one deals and one loads
inline constexpr int32_t kDeepMultipliers = 8;  // warps
inline constexpr int32_t kDeepAlignment = 1024;
inline constexpr int32_t kDeepMinResidentStages = 3;
inline constexpr int32_t kDeepMaxStages = 4;

// Token tiles of a warpgroup whose description is kept. A tile takes three chunks or more of the ring's four stages at
// most, so that those under way are of two tiles; a third one is being filled.
inline constexpr int32_t kDeepTileEntries = 3;
inline constexpr int32_t kDeepMinChunks = 3;

// Returns the token tiles, of different documents, that a pipeline stage holds side by side.
constexpr int32_t DeepTilesOfStage(ScoreTile tile) { return tile == ScoreTile::kDeep128 ? 2 : 1; }

constexpr int32_t DeepChunks(int64_t row_bytes) {
  return static_cast<int32_t>((row_bytes + kDeepChunkBytes - 1) / kDeepChunkBytes);
}

// Bytes of a chunk of a row tile and of a token tile.
constexpr int32_t DeepQueryChunkBytes(ScoreTile tile) { return TraitsOf(tile).rows * kDeepChunkBytes; }
inline constexpr int32_t kDeepTokensChunkBytes = kDeepTokens * kDeepChunkBytes;

// What comes first, in bytes.
inline constexpr int32_t kDeepEntries = 0;                           // [kDeepTileEntries][2]
inline constexpr int32_t kDeepMostPieces = TileOctets(kDeepTokens);  // of a tile: each has an octet at least
inline constexpr int32_t kDeepNotes = kDeepEntries + kDeepTileEntries * 2 * TileEntryBytes(kDeepMostPieces);  // [2]
inline constexpr int32_t kDeepFull =
    kDeepNotes + 2 * kDeepMostPieces * kPieceNoteBytes;                        // [kDeepMaxStages] barriers of 8 bytes
inline constexpr int32_t kDeepEmpty = kDeepFull + kDeepMaxStages * 8;          // [kDeepMaxStages]
inline constexpr int32_t kDeepSlotBarriers = kDeepEmpty + kDeepMaxStages * 8;  // of the chunk that is handed over ...
inline constexpr int32_t kDeepSlot = (kDeepSlotBarriers + kUnitBarrierBytes + 15) / 16 * 16;  // ... and the chunk
inline constexpr int32_t kDeepQuery = 3 * kDeepAlignment;  // the resident chunks of the row tile
static_assert(kDeepSlot + kUnitSlotBytes <= kDeepQuery);
static_assert(kDeepMaxStages <= kDeepMinChunks + 1);

struct DeepShape {
  bool query_resident = false;
  int32_t stages = 0;
};

struct DeepLayout {
  int32_t stages;       // the ring, behind the resident chunks
  int32_t stage_bytes;  // the row tile's chunk where it is streamed, then one of every token tile
  int32_t total;
};

constexpr DeepLayout DeepLayoutOf(ScoreTile tile, DeepShape shape, int32_t chunks) {
  DeepLayout layout{};
  const int32_t query = DeepQueryChunkBytes(tile);
  layout.stages = kDeepQuery + (shape.query_resident ? chunks * query : 0);
  layout.stage_bytes = (shape.query_resident ? 0 : query) + DeepTilesOfStage(tile) * kDeepTokensChunkBytes;
  layout.total = layout.stages + shape.stages * layout.stage_bytes;
  return layout;
}

// The most stages that fit; 0 when not even two do.
constexpr DeepShape DeepShapeOf(ScoreTile tile, int64_t row_bytes, int32_t shared_bytes) {
  for (const bool resident : {true, false}) {
    for (int32_t stages = kDeepMaxStages; stages >= (resident ? kDeepMinResidentStages : kMinStages); --stages) {
      const DeepShape shape{resident, stages};
      if (DeepLayoutOf(tile, shape, DeepChunks(row_bytes)).total <= shared_bytes) return shape;
    }
  }
  return {};
}

}  // namespace maxsim
