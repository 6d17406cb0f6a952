// The shared memory of the portable scoring kernels: what the plan and the kernels both compute from.
#pragma once

#include <cstdint>

#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"

namespace maxsim {

// Stages of the ring. Two are the least that overlaps loading with arithmetic; beyond eight nothing was left to gain,
// and the candidate table below relies on it.
inline constexpr int32_t kMinStages = 2;
inline constexpr int32_t kMaxStages = 8;

// Candidates whose place in the token array is held in shared memory, filled half by half ahead of the loads.
inline constexpr int32_t kCandidateTableSize = 128;
inline constexpr int32_t kCandidateTableEntryBytes = 16;

// Bytes of one row of a resident query tile: whole steps, and 16 bytes against bank conflicts.
constexpr int32_t ResidentQueryPitch(int64_t row_bytes) {
  return static_cast<int32_t>((row_bytes + kStepBytes - 1) / kStepBytes * kStepBytes) + 16;
}

// Where the parts of a thread block's shared memory begin, in bytes. The kernel computes its pointers with this and the
// launch takes `total`, so the two cannot disagree.
struct SharedLayout {
  int32_t query;  // resident row tile; empty when its chunks travel with the documents
  int32_t
      stages;  // ring: per stage the column chunk of the token tile and, without a resident row tile, of the row tile
  int32_t stage_bytes;  // size of one stage
  int32_t table;        // [kCandidateTableSize] candidates
  int32_t maxima;       // [2][warps_tokens][rows] values, then as many indices where matches are wanted
  int32_t weights;      // [rows]
  int32_t total;
};

constexpr SharedLayout LayoutOf(ScoreTile tile, bool query_resident, bool align, int64_t row_bytes, int32_t stages) {
  const TileTraits traits = TraitsOf(tile);
  SharedLayout layout{};
  layout.query = 0;
  layout.stages = query_resident ? traits.rows * ResidentQueryPitch(row_bytes) : 0;
  layout.stage_bytes = (traits.tokens + (query_resident ? 0 : traits.rows)) * traits.pitch();
  layout.table = layout.stages + stages * layout.stage_bytes;
  layout.maxima = layout.table + kCandidateTableSize * kCandidateTableEntryBytes;
  layout.weights = layout.maxima + 2 * traits.warps_tokens * traits.rows * (align ? 8 : 4);
  layout.total = layout.weights + traits.rows * 4;
  return layout;
}

}  // namespace maxsim
