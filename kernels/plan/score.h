// The plan of a CUDA scoring call: which kernel, how it is tiled, how much shared memory it takes, how it fills the
// device. It is a pure function of the call's shape and the device's limits, so that it can be printed, and tested on a
// machine without a GPU. No plan affects results: every plan gives a document the same bits.
//
// The functions that plan are in kernels/plan/plan_score.h, as nvcc takes seconds to read what they need.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda/score/hopper_stream/config.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/score_tile.h"
#include "kernels/scalar_type.h"

namespace maxsim {

struct ScorePlan {
  ScalarType type = ScalarType::kF16;
  ScoreTile tile = ScoreTile::kRows32;
  bool query_resident = false;  // the row tile stays in shared memory; otherwise its chunks travel with the documents'
  bool align = false;           // finds the matching tokens instead of scores
  int32_t row_bytes = 0;        // of a document in device memory; of a query row too, but StreamQueryPitch
  int32_t num_steps = 0;        // of kStepBytes in a row, the last one zero-filled
  int32_t num_chunks = 0;       // column chunks of a token tile: what a pipeline stage holds is one of them
  int32_t tile_tokens = 0;      // of a token tile
  int32_t chunks_of_chain = 0;  // column chunks in a chain of kChainColumns columns
  int32_t stages = 0;
  int32_t threads = 0;
  int32_t shared_bytes = 0;
  int32_t blocks_per_sm = 0;
  int64_t num_row_tiles = 0;        // of all groups
  int64_t num_half_tiles = 0;       // wide: of those, of at most kHalfTileQueryTiles query tiles
  int32_t row_tiles_at_once = 0;    // row tiles the grid works on side by side; it strides over the rest
  int32_t blocks_per_row_tile = 0;  // thread blocks that share one row tile's candidates; wide: all, at first;
                                    // stream: StreamShares says how many take part

  int32_t grid() const { return row_tiles_at_once * blocks_per_row_tile; }
  std::string ToString() const;
};

}  // namespace maxsim
