// The plan of a CUDA scoring call: which kernel scores it, how it is tiled, how much shared memory it takes and how it
// fills the device. A plan is a pure function of the call's shape and the device's limits, so that it can be printed,
// and tested on a machine without a GPU. No plan affects results: every plan gives a document the same bits.
//
// The functions that plan are in kernels/plan/plan_score.h, as nvcc takes seconds to read what they need.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"
#include "kernels/scalar_type.h"

namespace maxsim {

struct ScorePlan {
  ScalarType type = ScalarType::kF16;
  ScoreTile tile = ScoreTile::kRows32;
  // Whether the row tile stays in shared memory; otherwise its column chunks travel with the documents'.
  bool query_resident = false;
  bool align = false;  // whether it finds the matching tokens instead of scores
  // The bytes of a document row in device memory, and of a query row, which takes StreamQueryPitch in stream kernels
  // and is one of F16 for residual codes.
  int32_t row_bytes = 0;
  int32_t num_steps = 0;  // k-steps of a row, the last one filled with zeros
  // The column chunks of a token tile. A pipeline stage holds one of them.
  int32_t num_chunks = 0;
  int32_t tile_tokens = 0;      // tokens of a token tile
  int32_t chunks_of_chain = 0;  // column chunks in a chain of kChainColumns columns
  int32_t stages = 0;
  int32_t threads = 0;
  int32_t shared_bytes = 0;  // of residual codes without the table of weights
  int32_t blocks_per_sm = 0;
  int64_t num_row_tiles = 0;   // row tiles of all groups
  int64_t num_half_tiles = 0;  // row tiles of at most kHalfTileQueryTiles query tiles; wide kernels only
  // The row tiles that the grid works on side by side. It strides over the others.
  int32_t row_tiles_at_once = 0;
  // The thread blocks that share one row tile's candidates. In the Hopper kernels these are all thread blocks; of a
  // stream kernel, StreamShares says how many take part.
  int32_t blocks_per_row_tile = 0;

  int32_t grid() const { return row_tiles_at_once * blocks_per_row_tile; }
  std::string ToString() const;
};

}  // namespace maxsim
