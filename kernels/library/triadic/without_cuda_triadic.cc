// Replaces the CUDA passes of triadic.h in a build without CUDA. Every call returns MAXSIM_UNSUPPORTED.
#include "kernels/library/triadic/triadic_problem.h"

namespace maxsim::library {
namespace {

Status NoCudaTriadic() { return Unsupported("call.device is MAXSIM_CUDA, and this build of the library has no CUDA"); }

}  // namespace

Status CudaTriadicWorkspaceBytes(const TriadicProblem&, int32_t, size_t*) { return NoCudaTriadic(); }
Status CudaTriadic(const TriadicProblem&, void*, float*) { return NoCudaTriadic(); }
Status CudaTriadicBackward(const TriadicProblem&, const maxsim_triadic_gradients&) { return NoCudaTriadic(); }
Status CudaTriadicMaxWorkspaceBytes(const TriadicMaxProblem&, int32_t, size_t*) { return NoCudaTriadic(); }
Status CudaTriadicMax(const TriadicMaxProblem&, float*, int32_t*) { return NoCudaTriadic(); }
Status CudaTriadicMaxBackward(const TriadicMaxProblem&, const maxsim_triadic_max_gradients&) { return NoCudaTriadic(); }

}  // namespace maxsim::library
