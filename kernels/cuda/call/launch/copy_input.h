// Copies a call's input to the device without a copy engine.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/select/completion.h"

namespace maxsim::cuda {

// Loads the kernel's code onto the device, so that the first call need not wait for it. Call it once per device.
cudaError_t PrepareCopyInput();

struct InputCopy {
  const void* pinned;  // the input, [bytes] in pinned memory
  void* device;        // output, [bytes]
  size_t bytes;        // a multiple of 16
  // The candidate lists in the input begin at byte `ordinals`, a multiple of 16, and have `num_ordinals` elements.
  size_t ordinals;
  size_t num_ordinals;
  const int64_t* offsets;  // [num_documents + 1] in device memory, to be prefetched; may be null
};

// Starts a kernel that copies a call's input. For small inputs the kernel takes half the time of a copy engine, and the
// next kernel can start before this one ends. The kernel also loads the offsets of listed documents into the L2 cache,
// because the scoring kernels read those first. It writes input_begin and input_end to `times`, in pinned memory.
cudaError_t LaunchCopyInput(const InputCopy& copy, CallTimes* times, cudaStream_t stream);

}  // namespace maxsim::cuda
