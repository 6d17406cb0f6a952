// The shared memory of the portable scoring kernels, as both the plan and the kernels compute it.
#pragma once

#include <cstdint>

#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"
#include "kernels/plan/shared_arrays.h"

namespace maxsim {

// Bounds on the stages of the ring, the pipeline of tiles in shared memory. Two is the smallest number that overlaps
// loading with arithmetic. More than eight gain nothing, and the size of the candidate table below assumes at most
// eight.
inline constexpr int32_t kMinStages = 2;
inline constexpr int32_t kMaxStages = 8;

// Number of candidates in the table in shared memory that says where each candidate's rows lie. The table is filled
// ahead of the loads, one half at a time.
inline constexpr int32_t kCandidateTableSize = 128;
inline constexpr int32_t kCandidateTableEntryBytes = 16;

inline constexpr int32_t kPortableAlignment = 128;  // of the shared memory

// Returns the distance in bytes between rows of a resident query tile: whole steps, and 16 bytes that avoid bank
// conflicts.
constexpr int32_t ResidentQueryPitch(int64_t row_bytes) {
  return static_cast<int32_t>((row_bytes + kStepBytes - 1) / kStepBytes * kStepBytes) + 16;
}

// Says where the parts of a thread block's shared memory begin, in bytes. The kernel computes its pointers with this
// and the launch takes `total`, so the two cannot disagree.
struct SharedLayout {
  int32_t query;  // resident row tile; empty if its chunks are streamed with the documents' chunks
  // The ring: each stage has a column chunk of the token tile, and one of the row tile if that is not resident.
  int32_t stages;
  int32_t stage_bytes;  // size of one stage
  int32_t table;        // [kCandidateTableSize] candidates
  int32_t maxima;       // [2][warps_tokens][rows] values, and as many indices if it finds matches
  int32_t weights;      // [rows]
  int32_t total;
};

constexpr SharedLayout LayoutOf(ScoreTile tile, bool query_resident, bool align, int64_t row_bytes, int32_t stages) {
  const TileTraits traits = TraitsOf(tile);
  SharedLayout layout{};
  layout.stage_bytes = (traits.tokens + (query_resident ? 0 : traits.rows)) * traits.pitch();
  SharedArrays arrays(kPortableAlignment);
  layout.query = arrays.TakeBytes(query_resident ? traits.rows * ResidentQueryPitch(row_bytes) : 0, 16);
  layout.stages = arrays.TakeBytes(stages * layout.stage_bytes, 16);
  layout.table = arrays.TakeBytes(kCandidateTableSize * kCandidateTableEntryBytes, 16);
  layout.maxima = arrays.Take<uint32_t>(2 * traits.warps_tokens * traits.rows * (align ? 2 : 1));
  layout.weights = arrays.Take<float>(traits.rows);
  layout.total = arrays.bytes();
  return layout;
}

}  // namespace maxsim
