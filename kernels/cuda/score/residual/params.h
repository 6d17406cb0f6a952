// The parameters of the kernels over residual codes, which host and device share.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/score/score_params.h"

namespace maxsim::cuda {

// ScoreParams::tokens has rows of RowBytes(type, dim), `document_bytes` apart; query rows are F16, `row_bytes` apart.
struct ResidualParams : ScoreParams {
  const uint8_t* centroids;     // F16 [num_centroids], `row_bytes` apart, zero after their columns
  const float* bucket_weights;  // [2^bits]
  DeviceMatch* matches;         // output [num_candidates, query_tokens] in place of scores; null to compute scores
  int64_t num_centroids;
  int32_t dim;
  int32_t document_bytes;       // a multiple of 16
  int32_t blocks_per_row_tile;  // thread blocks that share the candidates of a row tile
  int32_t query_tokens;         // columns of `matches`; RowTile::first_row is then the number of a query token
  int32_t resident;             // 1: query rows stay in shared memory
  int32_t unused;
};
static_assert(std::is_trivially_copyable_v<ResidualParams>);

}  // namespace maxsim::cuda
