// The shared memory of the deep kernels (kernels/cuda/score/hopper_deep/kernel.cuh), as both the plan and the kernels
// compute it.
//
// A row is cut into *column chunks* of 128 bytes. A stage of the ring (the pipeline of tiles in shared memory) holds
// one chunk of a token tile; with kDeep128 it holds one chunk for each of the two warpgroups, which have different
// token tiles. If shared memory has room for all chunks of the row tile and for three stages, the row tile's chunks
// stay there. Otherwise each stage also holds one chunk of the row tile.
#pragma once

#include <cstdint>

#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/portable_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"
#include "kernels/plan/shared_arrays.h"

namespace maxsim {

inline constexpr int32_t kDeepChunkBytes = 128;
inline constexpr int32_t kDeepMaxRowBytes = kChainColumns * 2;
// Two warpgroups multiply. In the third, one warp schedules work and one loads.
inline constexpr int32_t kDeepThreads = 384;
inline constexpr int32_t kDeepMultipliers = 8;  // warps
inline constexpr int32_t kDeepAlignment = 1024;
inline constexpr int32_t kDeepMinResidentStages = 3;
inline constexpr int32_t kDeepMaxStages = 4;

// Number of token tiles per warpgroup whose descriptions are kept. A tile has at least three chunks and the ring has at
// most four stages, so the ring holds chunks of at most two tiles. The third description is for the tile that is being
// filled.
inline constexpr int32_t kDeepTileEntries = 3;
inline constexpr int32_t kDeepMinChunks = 3;

// Returns the number of token tiles, of different documents, that a pipeline stage holds side by side.
constexpr int32_t DeepTilesOfStage(ScoreTile tile) { return tile == ScoreTile::kDeep128 ? 2 : 1; }

// Returns the column chunks of a row.
constexpr int32_t DeepChunks(int64_t row_bytes) {
  return static_cast<int32_t>((row_bytes + kDeepChunkBytes - 1) / kDeepChunkBytes);
}

// The bytes of one chunk of a row tile, and of one chunk of a token tile.
constexpr int32_t DeepQueryChunkBytes(ScoreTile tile) { return TraitsOf(tile).rows * kDeepChunkBytes; }
inline constexpr int32_t kDeepTokensChunkBytes = kDeepTokens * kDeepChunkBytes;

// Maximum number of pieces in a token tile: each has at least one octet.
inline constexpr int32_t kDeepMostPieces = TileOctets(kDeepTokens);

// The first part of the shared memory. Kernels compute addresses in it by offsetof.
struct DeepHead {
  TileSpace<kDeepMostPieces> entries[kDeepTileEntries][2];  // of the token tiles of each warpgroup
  NotesSpace<kDeepMostPieces> notes[2];
  uint64_t full[kDeepMaxStages];   // barriers: the stage's copies have arrived
  uint64_t empty[kDeepMaxStages];  // barriers: the multiplying warps are done with the stage
  uint64_t slot_barriers[kUnitBarriers];
  WorkUnitSpace slot;  // of the work unit that is handed over
};
static_assert(kDeepMaxStages <= kDeepMinChunks + 1);

struct DeepShape {
  bool query_resident = false;
  int32_t stages = 0;
};

// Where the parts that follow a DeepHead begin, in bytes. All of them are swizzled, and aligned to kDeepAlignment.
struct DeepLayout {
  int32_t query;        // the row tile's chunks, if they are resident
  int32_t stages;       // the ring
  int32_t stage_bytes;  // the row tile's chunk, if it is streamed, then one chunk of every token tile
  int32_t total;
};

constexpr DeepLayout DeepLayoutOf(ScoreTile tile, DeepShape shape, int32_t chunks) {
  DeepLayout layout{};
  const int32_t query_bytes = DeepQueryChunkBytes(tile);
  layout.stage_bytes = (shape.query_resident ? 0 : query_bytes) + DeepTilesOfStage(tile) * kDeepTokensChunkBytes;
  SharedArrays arrays(kDeepAlignment);
  arrays.Take<DeepHead>(1);
  layout.query = arrays.TakeBytes(shape.query_resident ? chunks * query_bytes : 0, kDeepAlignment);
  layout.stages = arrays.TakeBytes(shape.stages * layout.stage_bytes, kDeepAlignment);
  layout.total = arrays.bytes();
  return layout;
}

// Returns the shape with the most pipeline stages that fit in `shared_bytes`, but prefers a row tile that stays in
// shared memory to more stages. Returns a shape of 0 stages if not even kMinStages stages fit.
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
