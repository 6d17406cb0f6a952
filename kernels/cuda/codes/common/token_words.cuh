// The words of codes that one lane reads of a document's tokens, for rows of up to 128 coordinates.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/codes/common/expand.cuh"
#include "kernels/cuda/codes/common/scan_params.h"

namespace maxsim::cuda {

// Pointers to a lane's words of one token. A row has kWords words in plane 0. If kWords is 4 (a group), each lane of a
// quad reads one of the words. If it is less (tail words), each lane reads all words.
template <int kPlanes, int kWords>
struct TokenPointers {
  const uint32_t* plane0;
  const uint32_t* plane1;
  const uint2* fields;

  __device__ __forceinline__ void Set(const CodeArrays& codes, int64_t token, int quad_lane) {
    const int64_t first = token * kWords + (kWords == 4 ? quad_lane : 0);
    plane0 = reinterpret_cast<const uint32_t*>(codes.plane0) + first;
    if constexpr (kPlanes >= 2) plane1 = reinterpret_cast<const uint32_t*>(codes.plane1) + first;
    if constexpr (kPlanes == 4) fields = reinterpret_cast<const uint2*>(codes.planes23) + first;
  }

  __device__ __forceinline__ void Advance(int tokens) {
    plane0 += tokens * kWords;
    if constexpr (kPlanes >= 2) plane1 += tokens * kWords;
    if constexpr (kPlanes == 4) fields += tokens * kWords;
  }
};

// A lane's words of one token.
template <int kPlanes, int kWords>
struct TokenWords {
  static constexpr int kLoads = kWords == 4 ? 1 : kWords;
  CodeWord words[kLoads];

  // Loads the words of the token that is `row` tokens after the token of `pointers`.
  __device__ __forceinline__ void Load(const TokenPointers<kPlanes, kWords>& pointers, int row) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      words[i].plane0 = __ldg(pointers.plane0 + row * kWords + i);
      if constexpr (kPlanes >= 2) words[i].plane1 = __ldg(pointers.plane1 + row * kWords + i);
      if constexpr (kPlanes == 4) words[i].fields = __ldg(pointers.fields + row * kWords + i);
    }
  }

  // Returns the bytes of a step. `step` must be known at compile time.
  __device__ __forceinline__ StepBytes Step(int step, int quad_lane) const {
    return kWords == 4 ? Expand<kPlanes>(words[0], step) : Expand<kPlanes>(words[step % kLoads], quad_lane);
  }
};

}  // namespace maxsim::cuda
