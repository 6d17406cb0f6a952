// The passes on CUDA devices. In a build without CUDA, these functions return an error that says so (without_cuda.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/library/problem/problem.h"

namespace maxsim::library {

// Returns whether any device of this machine can run this build's code for CUDA: whether its compute capability is at
// least the lowest one that the code was compiled for.
bool CudaAvailable();

// These functions do what maxsim_workspace_bytes, maxsim_forward and maxsim_backward say. They launch kernels on the
// current device, on the stream of the call. They allocate no memory, and do not wait for the kernels. A forward pass
// takes at most 2^31 - 1 pairs of a query and a document. A backward pass that sorts its matches (SortsDocumentMatches)
// takes at most 2^31 - 1 of them, where each pair has a match for every query token; other backward passes take at most
// 2^31 - 1 pairs.
Status CudaWorkspaceBytes(const Problem& problem, int32_t pass, size_t* bytes);
Status CudaForward(const Problem& problem, float* scores, int32_t* argmax);
Status CudaBackward(const Problem& problem, const maxsim_gradients& gradients);

}  // namespace maxsim::library
