// A call's input on its way to the device without a copy engine.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/call/completion.h"

namespace maxsim::cuda {

// Loads the kernel's code.
cudaError_t PrepareCopyInput();

struct InputCopy {
  const void* pinned;  // host memory
  void* device;
  size_t bytes;  // a multiple of 16
  // Where the lists of candidates begin that are part of the input, a multiple of 16 bytes, and their elements.
  size_t ordinals;
  size_t num_ordinals;
  const int64_t* offsets;  // of the documents; null: they are not asked for
};

// Copies a call's input by a kernel: of little data it takes half the time that a copy engine does, and the next kernel
// can start meanwhile. The offsets of listed documents are brought into the L2 cache on the way: what scores them reads
// those first of all. Notes its times in `times`.
cudaError_t LaunchCopyInput(const InputCopy& copy, CallTimes* times, cudaStream_t stream);

}  // namespace maxsim::cuda
