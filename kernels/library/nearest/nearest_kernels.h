// The kernels of nearest.h: parameters and launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/library/cuda/sort_matches.h"
#include "kernels/library/include/maxsim/nearest.h"

namespace maxsim::library {

// Points with at most this many columns stay in registers (LaunchSmallNearest). Wider points are compared tile by tile
// in shared memory (LaunchWideNearest).
inline constexpr int32_t kSmallNearestDim = 4;

struct NearestParams {
  maxsim_nearest_call call;
  uint32_t num_x_tiles;  // of each set
  uint32_t num_splits;   // thread blocks that share the y of a set, for the same x
  float* distances;      // [num_sets, max_x]
  int32_t* argmin;       // [num_sets, max_x]

  // The results of each part of y if num_splits > 1. LaunchJoinSplits takes the smallest.
  float* split_distances;  // [num_splits, num_sets, max_x] or null
  int32_t* split_argmin;   // [num_splits, num_sets, max_x] or null
};

struct NearestGradientParams {
  maxsim_nearest_call call;
  const int32_t* argmin;            // [num_sets, max_x]
  const float* distance_gradients;  // [num_sets, max_x]
  void* x_gradients;                // [num_sets, max_x, dim] or null
  void* y_gradients;                // [num_sets, max_y, dim] or null
  bool aligned;                     // whether 4 columns of x, y and gradients of y begin at a multiple of their size
  SortedMatches matches;            // rows of x by the row of y that they are nearest to
};

// Sets num_x_tiles and num_splits from the call's shape. Results do not depend on them.
void PlanNearest(NearestParams* params);

// LaunchSmallNearest takes points with at most kSmallNearestDim columns, LaunchWideNearest points with more.
cudaError_t LaunchSmallNearest(const NearestParams& params, cudaStream_t stream);
cudaError_t LaunchWideNearest(const NearestParams& params, cudaStream_t stream);

// Writes the smallest (distance, index) of all parts of y as the result.
cudaError_t LaunchJoinSplits(const NearestParams& params, cudaStream_t stream);

cudaError_t LaunchXGradients(const NearestGradientParams& params, cudaStream_t stream);

// Sorts the matches and writes the gradients of y.
cudaError_t LaunchYGradients(NearestGradientParams params, cudaStream_t stream);

}  // namespace maxsim::library
