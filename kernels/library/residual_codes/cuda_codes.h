// The passes over residual codes on CUDA devices. In a build without CUDA, they return an error
// (without_cuda_codes.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/library/residual_codes/coded_problem.h"

namespace maxsim::library {

// Implement the functions of residual_codes.h. They launch kernels on the current device and the call's stream, without
// waiting for them, and allocate no memory. A call may have at most 2^31 - 1 pairs.
Status CudaCodesWorkspaceBytes(const CodedProblem& problem, size_t* bytes);
Status CudaCodesForward(const CodedProblem& problem, float* scores, int32_t* argmax);
Status CudaCodesBackward(const CodedProblem& problem, const maxsim_gradients& gradients);

}  // namespace maxsim::library
