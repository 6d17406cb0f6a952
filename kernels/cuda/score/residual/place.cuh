// Where a warp of the forward pass over residual codes is: documents, tiles, and the columns that a lane reads of them.
#pragma once

#include <cstdint>

namespace maxsim::cuda {

inline constexpr int32_t kNoCodedToken = INT32_MAX;
// The smallest norm that a vector is divided by.
inline constexpr float kMinCodedNorm = 1e-12f;

// Where a lane's columns of a step are: those of centroid number 0, and the codes of the tile's first group of tokens.
struct CodedSource {
  int32_t column;
  const uint8_t* centroids;
  const uint8_t* codes;
};

// Returns the pointer, computed here: the compiler would otherwise move its arithmetic into the branch around each
// token's load, and could not share it between them.
__device__ __forceinline__ const uint8_t* Computed(const uint8_t* pointer) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+l"(pointer));
#endif
  return pointer;
}

// Where a document lies.
struct CodedSpan {
  int64_t first_row;
  int32_t length;
};

// A tile on a warp's way. All lanes hold the same one. A call has less than 2^31 pairs.
struct CodedPlace {
  uint32_t pair;
  int32_t token;  // the tile's first
  CodedSpan span;

  __device__ __forceinline__ int64_t row() const { return span.first_row + token; }
};

}  // namespace maxsim::cuda
