// The sizes and the shared memory of the stream kernels, as both the plan and the kernels compute them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/plan/rows.h"
#include "kernels/plan/shared_arrays.h"

namespace maxsim {

// The number of documents whose maxima may be in flight. kStreamSlots must be at least the number of pipeline stages of
// every ring.
inline constexpr int32_t kStreamSlots = 32;
// The size of a token tile's description.
inline constexpr int32_t kStreamEntryBytes = 16;
inline constexpr int32_t kStreamAlignment = 128;  // of the shared memory; bulk copies need 16
// The maximum number of warps that multiply. Each warp multiplies its own tile. With 11 such warps and the loading
// warp, a thread can have 168 registers.
inline constexpr int32_t kStreamMaxWarps = 11;
// Rows of at most this many bytes keep the query in registers, and tiles take about 8 KB.
inline constexpr int32_t kStreamRegisterRowBytes = 256;
inline constexpr int32_t kStreamTileBytes = 8192;
// For wider rows, the kernels keep the query in shared memory. kStreamSharedBytes is the shared memory that a thread
// block may have on Hopper. kStreamMinStages is the smallest number of stages that keeps the memory busy: one tile is
// multiplied while two are being copied.
inline constexpr int32_t kStreamSharedBytes = 227 * 1024;
inline constexpr int32_t kStreamMinStages = 3;

// Returns the size in bytes of a query row as the stream kernels read it, in device memory and in shared memory: the
// row is padded with zeros to whole steps (kStepBytes). The rows of a query tile (kQueryTileTokens rows) are stored in
// the order of the operands of mma.sync, not row by row. For every step and every 16 rows, a lane's operand has 16
// bytes: of two rows, in the lane's quarter of the step, first both first words and then both second words.
constexpr int32_t StreamQueryPitch(int64_t row_bytes) {
  return static_cast<int32_t>((row_bytes + kStepBytes - 1) / kStepBytes * kStepBytes);
}

// Returns where byte `byte` of row `row` lies in its query tile.
constexpr int32_t StreamQueryOffset(int32_t row, int32_t byte) {
  const int32_t operand = byte / kStepBytes * (kQueryTileTokens / 16) + row / 16;
  const int32_t lane = row % 8 * 4 + byte % kStepBytes / 8;
  const int32_t word = byte % 8 / 4 * 2 + row % 16 / 8;
  return (operand * 32 + lane) * 16 + word * 4 + byte % 4;
}

// Says where the parts of a stream kernel's shared memory begin, in bytes; the token tiles come first.
struct StreamLayout {
  int32_t query;       // kQueryTileTokens rows of StreamQueryPitch bytes; none if registers hold them
  int32_t entries;     // [stages]
  int32_t full;        // [stages] barriers of 8 bytes
  int32_t empty;       // [stages] barriers
  int32_t query_full;  // a barrier
  int32_t maxima;      // [kStreamSlots][kQueryTileTokens]
  int32_t counts;      // [kStreamSlots]
  int32_t cuts;        // [stages]
  int32_t total;
};

constexpr StreamLayout StreamLayoutOf(int32_t stages, int32_t stage_bytes, int32_t query_bytes) {
  StreamLayout layout{};
  SharedArrays arrays(kStreamAlignment);
  arrays.TakeBytes(stages * stage_bytes, 16);
  layout.query = arrays.TakeBytes(query_bytes, 16);
  layout.entries = arrays.TakeBytes(stages * kStreamEntryBytes, 16);
  layout.full = arrays.Take<uint64_t>(stages);
  layout.empty = arrays.Take<uint64_t>(stages);
  layout.query_full = arrays.Take<uint64_t>(1);
  layout.maxima = arrays.Take<uint32_t>(kStreamSlots * kQueryTileTokens);
  layout.counts = arrays.Take<uint32_t>(kStreamSlots);
  layout.cuts = arrays.Take<uint32_t>(stages);
  layout.total = arrays.bytes();
  return layout;
}

// The ring of a stream kernel: the pipeline of token tiles in shared memory. A stage always belongs to the same warp,
// so `warps` divides `stages`.
struct StreamShape {
  int32_t tile_tokens = 0;
  int32_t stage_bytes = 0;
  int32_t stages = 0;  // 0: shared memory has no room for a ring for such rows
  int32_t warps = 0;   // warps that multiply
  int32_t query_bytes = 0;

  constexpr StreamLayout Layout() const { return StreamLayoutOf(stages, stage_bytes, query_bytes); }
  constexpr int32_t threads() const { return 32 * (warps + 1); }
};

inline constexpr StreamShape kStreamRegisterShape{0, kStreamTileBytes, 2 * kStreamMaxWarps, kStreamMaxWarps, 0};

// Returns the ring (pipeline in shared memory) for wide rows with tiles of `tile_tokens` tokens. If fewer than
// kStreamMinStages stages fit, the ring has 0 stages.
constexpr StreamShape StreamSharedShape(int64_t row_bytes, int32_t tile_tokens) {
  StreamShape shape{tile_tokens, static_cast<int32_t>(tile_tokens * row_bytes), 0, 0,
                    kQueryTileTokens * StreamQueryPitch(row_bytes)};
  while (shape.stages < kStreamSlots &&
         StreamLayoutOf(shape.stages + 1, shape.stage_bytes, shape.query_bytes).total <= kStreamSharedBytes) {
    ++shape.stages;
  }
  if (shape.stages < kStreamMinStages) return {};
  // Takes as many warps as possible, because with few warps their latency limits the rate: one per stage, up to
  // kStreamMaxWarps. Takes fewer warps as long as more than an eighth of the stages would be left over.
  const int32_t fit = shape.stages;
  shape.warps = std::min(fit, kStreamMaxWarps);
  while (fit % shape.warps > fit / 8) --shape.warps;
  shape.stages -= fit % shape.warps;
  return shape;
}

// Returns the ring for rows of `row_bytes`. With the query in registers, a tile has about kStreamTileBytes. With the
// query in shared memory, a tile has 32 tokens if these take at most 12 KB, otherwise 16, the number that mma.sync
// multiplies. If a ring of such tiles does not fit, a tile has 8 tokens, and the query is read twice as often.
constexpr StreamShape StreamShapeOf(int64_t row_bytes) {
  if (row_bytes <= kStreamRegisterRowBytes) {
    StreamShape shape = kStreamRegisterShape;
    shape.tile_tokens = static_cast<int32_t>(kStreamTileBytes / row_bytes / 8 * 8);
    return shape;
  }
  for (const int32_t tokens : {32, 16, 8}) {
    if (tokens == 32 && tokens * row_bytes > kStreamTileBytes * 3 / 2) continue;
    if (const StreamShape shape = StreamSharedShape(row_bytes, tokens); shape.stages > 0) return shape;
  }
  return {};
}

}  // namespace maxsim
