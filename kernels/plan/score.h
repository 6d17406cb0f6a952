// The plan of a CUDA scoring call: which kernel scores it, with which tiling, with how much shared memory and with how
// many thread blocks. A plan is a pure function of the call's shape and the device's limits, so that it can be printed,
// and tested on a machine without a GPU. Plans do not affect results: with every plan a document's score has the same
// bits.
//
// The functions that make plans are in kernels/plan/plan_score.h, because nvcc would take seconds to read the headers
// that they need.
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
  // Whether the row tile stays in shared memory. If not, its column chunks are loaded together with the documents'
  // chunks.
  bool query_resident = false;
  bool align = false;  // whether it finds the matching tokens instead of scores
  // The bytes of a document row in device memory. A query row has as many, with two exceptions: in stream kernels it
  // has StreamQueryPitch bytes, and for residual codes it is a row of F16.
  int32_t row_bytes = 0;
  int32_t num_steps = 0;  // k-steps of a row, the last one filled with zeros
  // The column chunks of a token tile. A pipeline stage holds one of them.
  int32_t num_chunks = 0;
  int32_t tile_tokens = 0;      // tokens of a token tile
  int32_t chunks_of_chain = 0;  // column chunks in a chain of kChainColumns columns
  int32_t stages = 0;
  int32_t threads = 0;
  int32_t shared_bytes = 0;  // for residual codes, without the table of weights
  int32_t blocks_per_sm = 0;
  int64_t num_row_tiles = 0;   // row tiles of all groups
  int64_t num_half_tiles = 0;  // row tiles of at most kHalfTileQueryTiles query tiles; wide kernels only
  // The number of row tiles that the grid works on at the same time. The grid strides over all row tiles.
  int32_t row_tiles_at_once = 0;
  // The number of thread blocks that divide the candidates of one row tile among them. In the Hopper kernels these are
  // all thread blocks of the grid. In a stream kernel, StreamShares says how many of them take part.
  int32_t blocks_per_row_tile = 0;

  int32_t grid() const { return row_tiles_at_once * blocks_per_row_tile; }
  std::string ToString() const;
};

}  // namespace maxsim
