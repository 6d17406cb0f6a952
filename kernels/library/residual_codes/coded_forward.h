// The kernels over residual codes: parameters and launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/library/cuda/device_problem.h"
#include "kernels/library/include/maxsim/residual_codes.h"
#include "kernels/plan/residual_shape.h"
#include "kernels/scalar_type.h"

namespace maxsim::library {

// How a call is divided into thread blocks.
struct CodedPlan {
  int64_t query_tiles = 1;          // of 32 tokens each, whose sums are added in order
  int64_t documents_per_block = 1;  // consecutive pairs of a query
  int64_t splits = 1;               // thread blocks that share a query tile's pairs
  int64_t num_blocks = 0;           // queries * query_tiles * splits
  bool resident = true;             // whether the query rows stay in shared memory
};

struct CodedParams {
  DeviceProblem problem;  // its documents have no rows
  maxsim_residual_codes codes;
  CodedPlan plan;
  int64_t row_bytes;         // of queries and centroids
  int64_t packed_row_bytes;  // of residuals
  float* scores;             // [pairs]
  int32_t* argmax;           // [pairs, queries' max_tokens] or null
  float* partials;           // [pairs, query_tiles] as in ForwardParams, or null if there is one tile
  bool aligned;  // whether 8 columns of queries and centroids lie at multiples of 16 bytes, and their codes at
                 // multiples of nbits bytes
};

// Launches the kernel for queries of type kType.
template <ScalarType kType>
struct CodedLauncher {
  static cudaError_t Launch(const CodedParams& params, cudaStream_t stream);
};

struct CodedGradientParams {
  DeviceProblem problem;
  maxsim_residual_codes codes;
  int64_t packed_row_bytes;
  const int32_t* argmax;         // [pairs, queries' max_tokens]
  const float* score_gradients;  // [pairs]
  void* query_gradients;         // [queries' num_rows, dim] or null
  float* weight_gradients;       // [queries' num_rows] or null
};

// Writes query_gradients and weight_gradients, unless they are null.
cudaError_t LaunchCodedGradients(const CodedGradientParams& params, cudaStream_t stream);

}  // namespace maxsim::library
