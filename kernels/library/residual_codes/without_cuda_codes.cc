// Replaces the CUDA passes over residual codes in a build without CUDA. Every call returns MAXSIM_UNSUPPORTED.
#include "kernels/library/residual_codes/cuda_codes.h"

namespace maxsim::library {
namespace {

Status NoCudaCodes() { return Unsupported("call.device is MAXSIM_CUDA, and this build of the library has no CUDA"); }

}  // namespace

Status CudaCodesWorkspaceBytes(const CodedProblem&, size_t*) { return NoCudaCodes(); }
Status CudaCodesForward(const CodedProblem&, float*, int32_t*) { return NoCudaCodes(); }
Status CudaCodesBackward(const CodedProblem&, const maxsim_gradients&) { return NoCudaCodes(); }

}  // namespace maxsim::library
