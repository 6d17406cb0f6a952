// Orders the candidates of a call for the wide and deep kernels: kernels/plan/order.h says when and why.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/score/hopper_common/params.h"

namespace maxsim::cuda {

// All pointers, including those in `order`, are to device memory.
struct OrderCall {
  const RowTile* row_tiles;  // [num_row_tiles]; the row tiles of a list follow one another
  const uint32_t* ordinals;  // the candidate lists
  const int64_t* offsets;    // of the documents
  const float* scales;       // of INT8 documents; null for others
  CandidateOrder order;      // kMaxPlacedCandidates elements of each array
  int32_t num_row_tiles = 0;
  int32_t unit_octets = 0;  // OrderPlan::unit_octets
};

// Writes `call.order`. Every list has 1 to kMaxOrderedCandidates candidates. Runs on Hopper only, as do the kernels
// that read the order.
cudaError_t LaunchOrderCandidates(const OrderCall& call, cudaStream_t stream);

// Loads the kernel's code on the current device, so that the first call that orders candidates does not wait for it.
cudaError_t PrepareOrderCandidates();

}  // namespace maxsim::cuda
