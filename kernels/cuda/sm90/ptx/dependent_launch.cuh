// Kernels that begin before the one before them in the stream has ended (programmatic dependent launch, sm_90).
#pragma once

namespace maxsim::cuda::sm90 {

// Waits until the kernel before has ended and what it wrote is visible. Returns at once where this kernel was launched
// without programmatic stream serialisation.
__device__ __forceinline__ void WaitForKernelBefore() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

}  // namespace maxsim::cuda::sm90
