// The kernels of triadic.h: parameters and launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/library/cuda/sort_matches.h"
#include "kernels/library/triadic/triadic_problem.h"

namespace maxsim::library {

// The parameters of a pass of attention (TriadicMode). A thread block computes one row of the result.
struct TriadicParams {
  TriadicRoles roles;
  int64_t num_problems;
  int32_t dim;
  int32_t index_type;
  float scale;
  bool aligned;        // whether 8 columns of every inner row begin at a multiple of 16 bytes
  const float* lse;    // of queries; null for kOutput
  const float* delta;  // <output, gradient of the output> of queries; null for kOutput
  void* result;        // [num_problems, owner's max_rows, dim]
  float* result_lse;   // [num_problems, owner's max_rows] for kOutput
};

// Launches a pass over rows of `type`. kBF16 rows, and kF16 rows with the mode kOutput, use tensor cores; other passes
// compute in FP32. (In a backward pass the weights are about 1 / (number of pairs of keys), too small for F16.)
cudaError_t LaunchTriadicPass(const TriadicParams& params, ScalarType type, TriadicMode mode, cudaStream_t stream);

// LaunchTriadicPass calls one of these four functions.
cudaError_t LaunchTensorPassF16(const TriadicParams& params, cudaStream_t stream);  // kOutput
cudaError_t LaunchTensorPassBF16(const TriadicParams& params, TriadicMode mode, cudaStream_t stream);
cudaError_t LaunchPlainPassF32(const TriadicParams& params, TriadicMode mode, cudaStream_t stream);
cudaError_t LaunchPlainPassF16(const TriadicParams& params, TriadicMode mode, cudaStream_t stream);  // not kOutput

// Writes delta = <output, gradient of the output> of every query: [num_rows].
cudaError_t LaunchTriadicDeltas(const void* output, const void* output_gradients, ScalarType type, int32_t dim,
                                int64_t num_rows, float* deltas, cudaStream_t stream);

struct TriadicMaxParams {
  maxsim_triadic_max_call call;
  uint32_t num_splits;  // thread blocks that share the first tokens of a query token
  float* maxima;        // [num_problems, max_queries]
  int32_t* argmax;      // [num_problems, max_queries, 2]

  // The results of each part if num_splits > 1. A second kernel takes the best.
  float* split_maxima;    // [num_splits, num_problems, max_queries] or null
  uint32_t* split_pairs;  // their pairs, as PackPair packs them
};

struct TriadicMaxGradientParams {
  maxsim_triadic_max_call call;
  const int32_t* argmax;           // [num_problems, max_queries, 2]
  const float* maximum_gradients;  // [num_problems, max_queries]
  void* query_gradients;           // [num_problems, max_queries, dim] or null
  void* first_gradients;           // [num_problems, max_first, dim] or null
  void* second_gradients;          // [num_problems, max_second, dim] or null
  bool aligned;                    // whether 4 columns of every matrix begin at a multiple of their size
  SortedMatches first_matches;     // query tokens by the row of first that their pair has
  SortedMatches second_matches;    // query tokens by the row of second
};

// Sets num_splits from the call's shape. Results do not depend on it.
void PlanTriadicMax(TriadicMaxParams* params);

cudaError_t LaunchTriadicMax(const TriadicMaxParams& params, cudaStream_t stream);

// Sorts the matches and writes the gradients that are not null.
cudaError_t LaunchTriadicMaxGradients(TriadicMaxGradientParams params, cudaStream_t stream);

}  // namespace maxsim::library
