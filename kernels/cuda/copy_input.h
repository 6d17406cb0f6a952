// A call's input on its way to the device without a copy engine.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/completion.h"

namespace maxsim::cuda {

// Loads the kernel's code.
cudaError_t PrepareCopyInput();

// Copies `bytes`, a multiple of 16, from pinned host memory to device memory by a kernel: of little data it takes half
// the time that a copy engine does, and the next kernel can start meanwhile. Notes its times in `record`.
cudaError_t LaunchCopyInput(const void* pinned, void* device, size_t bytes, CallRecord* record, cudaStream_t stream);

}  // namespace maxsim::cuda
