// The passes on CUDA devices. In a build without CUDA, they return an error (without_cuda.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/library/problem/problem.h"

namespace maxsim::library {

// Returns whether this machine has a device whose compute capability is at least the lowest one for which this build's
// CUDA code was compiled.
bool CudaAvailable();

// Implement maxsim_workspace_bytes, maxsim_forward and maxsim_backward. They launch kernels on the current device and
// the call's stream, without waiting for them, and allocate no memory. A call may have at most 2^31 - 1 pairs of a
// query and a document; maxsim.h states the limits of the backward pass.
Status CudaWorkspaceBytes(const Problem& problem, int32_t pass, size_t* bytes);
Status CudaForward(const Problem& problem, float* scores, int32_t* argmax);
Status CudaBackward(const Problem& problem, const maxsim_gradients& gradients);

}  // namespace maxsim::library
