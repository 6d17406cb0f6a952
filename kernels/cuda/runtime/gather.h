// Gathers scattered documents from pinned host memory into device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace maxsim::cuda {

// A copy of `bytes` from `from`, in pinned or device memory, to `to`, in device memory. Both addresses and `bytes` are
// multiples of 16, and `bytes` is at most kGatherCopyBytes.
struct GatherCopy {
  const void* from;
  void* to;
  int64_t bytes;
};

// Maximum bytes of one copy. A thread block starts all loads of a copy before its first store.
inline constexpr int64_t kGatherCopyBytes = int64_t{32} << 10;

// Loads the kernel's code ahead of the first call that needs it. To be called once per device.
cudaError_t PrepareGather();

// Starts a kernel of at most `num_blocks` thread blocks that makes `num_copies` copies, described at `copies` in device
// memory. The kernel reads the host's memory itself, because a copy engine does not reach half of the link's rate with
// copies of less than a megabyte each. Does nothing if there are no copies.
cudaError_t LaunchGather(const GatherCopy* copies, int64_t num_copies, int num_blocks, cudaStream_t stream);

}  // namespace maxsim::cuda
