// The parameters of the portable kernels, which host and device share.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/score/score_params.h"

namespace maxsim::cuda {

struct PortableParams : ScoreParams {
  DeviceMatch* matches;  // output [num_candidates, query_tokens] in place of scores; null to compute scores
  int32_t row_tiles_at_once;
  int32_t blocks_per_row_tile;
  int32_t num_chunks;       // column chunks of the tiling's chunk_bytes in a row
  int32_t chunks_of_chain;  // column chunks whose products are summed in one chain
  int32_t stages;           // pipeline stages of the ring
  int32_t query_tokens;     // columns of `matches`; RowTile::first_row is then the number of a query token
};
static_assert(std::is_trivially_copyable_v<PortableParams>);

}  // namespace maxsim::cuda
