// Scattered documents from pinned host memory to a block in device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace maxsim::cuda {

// `bytes` at `from` in pinned memory, to `to` in device memory; both and `bytes` are multiples of 16.
struct GatherPiece {
  const void* from;
  void* to;
  int64_t bytes;
};

// Bytes of a piece at most: what a thread block has on its way at a time.
inline constexpr int64_t kGatherPieceBytes = int64_t{32} << 10;

// Loads the kernel's code.
cudaError_t PrepareGather();

// Copies `num_pieces` pieces, described in device memory, by a kernel of `num_blocks` thread blocks that reads the
// host's memory itself: copies of less than a megabyte each do not reach half of the link's rate.
cudaError_t LaunchGather(const GatherPiece* pieces, int64_t num_pieces, int num_blocks, cudaStream_t stream);

}  // namespace maxsim::cuda
