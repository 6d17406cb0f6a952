// The passes over residual codes on CUDA devices. In a build without CUDA, these functions return an error that says so
// (without_cuda_codes.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/library/residual_codes/coded_problem.h"

namespace maxsim::library {

// These do what the functions of residual_codes.h say, on the stream of the call. They launch kernels on the current
// device, and neither wait nor allocate. A call has at most 2^31 - 1 pairs.
Status CudaCodesWorkspaceBytes(const CodedProblem& problem, size_t* bytes);
Status CudaCodesForward(const CodedProblem& problem, float* scores, int32_t* argmax);
Status CudaCodesBackward(const CodedProblem& problem, const maxsim_gradients& gradients);

}  // namespace maxsim::library
