// Replaces the CUDA passes of maxsim.h in a build without CUDA. Every pass returns MAXSIM_UNSUPPORTED, and
// CudaAvailable returns false.
#include "kernels/library/cuda/cuda_passes.h"

namespace maxsim::library {
namespace {

Status NoCuda() { return Unsupported("call.device is MAXSIM_CUDA, and this build of the library has no CUDA"); }

}  // namespace

bool CudaAvailable() { return false; }
Status CudaWorkspaceBytes(const Problem&, int32_t, size_t*) { return NoCuda(); }
Status CudaForward(const Problem&, float*, int32_t*) { return NoCuda(); }
Status CudaBackward(const Problem&, const maxsim_gradients&) { return NoCuda(); }

}  // namespace maxsim::library
