// Writes the list of candidates that a bitmap has (kernels/candidate_mask.h).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace maxsim::cuda {

// The number of words in a group. One warp expands a group.
inline constexpr int64_t kRankWords = 16;

// The pointers are to device memory.
struct MaskExpansion {
  const uint64_t* words;  // [num_words]; bit o of the whole is 1 if document o is a candidate
  const uint32_t* ranks;  // [ceil(num_words / kRankWords)]: candidates before each group of kRankWords words
  int64_t num_words;
  uint32_t* ordinals;  // output: the candidates, ascending
};

// Starts the kernel. Kernels that read the list may be launched next on the same CUDA stream.
cudaError_t LaunchExpandMask(const MaskExpansion& expansion, cudaStream_t stream);

// Loads the kernel's code onto the current device, so that the first call with a bitmap need not wait for it.
cudaError_t PrepareExpandMask();

}  // namespace maxsim::cuda
