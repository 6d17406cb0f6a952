// Ordering the candidates of a call for the wide and deep kernels (kernels/plan/score.h says when).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/score/hopper_common/params.h"

namespace maxsim::cuda {

// Device memory, but for the numbers.
struct OrderCall {
  const RowTile* row_tiles;  // [num_row_tiles], those of a list one after another
  const uint32_t* ordinals;  // candidate lists
  const int64_t* offsets;    // of the documents
  const float* scales;       // of quantised documents; else null
  CandidateOrder order;      // kMostPlacedCandidates elements of each array
  int32_t num_row_tiles = 0;
  int32_t unit_octets = 0;  // an OrderPlan's
};

// Writes `order`. Every list has 1 to kMostOrderedCandidates candidates. On Hopper alone, as what reads the order.
cudaError_t LaunchOrderCandidates(const OrderCall& call, cudaStream_t stream);

// Loads the code, so that the first call that needs it does not.
cudaError_t PrepareOrderCandidates();

}  // namespace maxsim::cuda
