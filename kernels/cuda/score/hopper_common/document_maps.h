// Tensor maps of a shard's token array and of a call's query rows. Tensor maps describe the arrays to the copy engine.
// describe_maps.h makes them.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/plan/hopper_shape.h"
#include "kernels/plan/score_tile.h"

namespace maxsim::cuda::sm90 {

// Passed by value to kernels (__grid_constant__). Copying several small boxes is slower than copying a large one. So
// there is one map, with its own size of box, for every number of octets (eight rows).
struct DocumentMaps {
  static constexpr int32_t kOctets = TileOctets(kWideTokens);

  CUtensorMap octets[kOctets];  // boxes of 8, 16, .. rows, of 128 bytes of their columns
};

// Query rows in the layout of the deep kernels' operands: columns, 16 rows, the two halves of a query tile (32 rows),
// query tiles. A box has 128 bytes of columns of one half of every query tile of a row tile.
struct QueryMap {
  CUtensorMap rows;
};

}  // namespace maxsim::cuda::sm90
