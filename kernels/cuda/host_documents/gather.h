// Gathers scattered documents from pinned host memory into device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace maxsim::cuda {

// A copy of `bytes` at `from` in pinned memory to `to` in device memory; both and `bytes` are multiples of 16.
struct GatherCopy {
  const void* from;
  void* to;
  int64_t bytes;
};

// Bytes of a copy at most: what a thread block has on its way at a time.
inline constexpr int64_t kGatherCopyBytes = int64_t{32} << 10;

// Loads the kernel's code.
cudaError_t PrepareGather();

// Copies `num_copies` copies, described in device memory, by a kernel of `num_blocks` thread blocks that reads the
// host's memory itself: copies of less than a megabyte each do not reach half of the link's rate.
cudaError_t LaunchGather(const GatherCopy* copies, int64_t num_copies, int num_blocks, cudaStream_t stream);

}  // namespace maxsim::cuda
