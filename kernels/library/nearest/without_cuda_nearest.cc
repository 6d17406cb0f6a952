// Replaces the CUDA passes of nearest.h in a build without CUDA. Every call returns MAXSIM_UNSUPPORTED.
#include "kernels/library/nearest/nearest_problem.h"

namespace maxsim::library {
namespace {

Status NoCudaNearest() { return Unsupported("call.device is MAXSIM_CUDA, and this build of the library has no CUDA"); }

}  // namespace

Status CudaNearestWorkspaceBytes(const NearestProblem&, int32_t, size_t*) { return NoCudaNearest(); }
Status CudaNearest(const NearestProblem&, float*, int32_t*) { return NoCudaNearest(); }
Status CudaNearestBackward(const NearestProblem&, const maxsim_nearest_gradients&) { return NoCudaNearest(); }

}  // namespace maxsim::library
