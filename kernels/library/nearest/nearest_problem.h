// A call of nearest.h in the form that its backends use: read from the structures of any version of the header, and
// checked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/library/include/maxsim/nearest.h"
#include "kernels/library/problem/status.h"
#include "kernels/scalar_type.h"

namespace maxsim::library {

// Borrows the caller's memory.
struct NearestProblem {
  maxsim_nearest_call call = {};

  ScalarType type() const { return static_cast<ScalarType>(call.type); }
  size_t row_bytes() const { return static_cast<size_t>(call.dim) * SizeOf(type()); }
  int64_t num_x() const { return call.num_sets * call.max_x; }  // padding included
  int64_t num_y() const { return call.num_sets * call.max_y; }
};

// Copies the caller's structure and checks its numbers. Does not read points and lengths.
Status ReadNearest(const maxsim_nearest_call* call, NearestProblem* problem);

// Copies the caller's structure `given` and checks it against the problem.
Status ReadNearestGradients(const NearestProblem& problem, const maxsim_nearest_gradients* given,
                            maxsim_nearest_gradients* gradients);

// The passes on the CPU, which check lengths and the argmin.
Status CpuNearest(const NearestProblem& problem, float* distances, int32_t* argmin);
Status CpuNearestBackward(const NearestProblem& problem, const maxsim_nearest_gradients& gradients);

// The passes on the current CUDA device. They enqueue work on the call's stream, without waiting for it or allocating
// memory. In a build without CUDA they return an error.
Status CudaNearestWorkspaceBytes(const NearestProblem& problem, int32_t pass, size_t* bytes);
Status CudaNearest(const NearestProblem& problem, float* distances, int32_t* argmin);
Status CudaNearestBackward(const NearestProblem& problem, const maxsim_nearest_gradients& gradients);

}  // namespace maxsim::library
