// Positions in the work of a warp that scores residual codes: documents, tiles, and the columns that a lane reads.
#pragma once

#include <cstdint>

namespace maxsim::cuda {

inline constexpr int32_t kNoCodedToken = INT32_MAX;
// The smallest norm that a vector is divided by.
inline constexpr float kMinCodedNorm = 1e-12f;

// Where a lane's columns of a step are: the address of these columns of centroid 0, and the address of the codes of the
// lane's token in the tile's first group.
struct CodedSource {
  int32_t column;
  const uint8_t* centroids;
  const uint8_t* codes;
};

// Returns `pointer`, and makes the compiler compute it here. Otherwise the compiler would compute it again in the
// branch around each token's load, instead of once for all of them.
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

// A tile in the work of a warp. All lanes have the same one. A call has fewer than 2^31 pairs.
struct CodedPlace {
  uint32_t pair;
  int32_t token;  // the tile's first
  CodedSpan span;

  __device__ __forceinline__ int64_t row() const { return span.first_row + token; }
};

}  // namespace maxsim::cuda
