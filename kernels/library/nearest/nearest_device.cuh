// Finds a thread block's part of a nearest call, and writes its results.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <limits>

#include "kernels/library/nearest/nearest_kernels.h"

namespace maxsim::library {

inline constexpr float kNearestInfinity = std::numeric_limits<float>::infinity();

// Returns a set's length.
__device__ __forceinline__ int32_t LengthOf(const maxsim_nearest_call& call, const void* lengths, int64_t max_points,
                                            int64_t set) {
  if (lengths == nullptr) return static_cast<int32_t>(max_points);
  return call.index_type == MAXSIM_INT32 ? static_cast<const int32_t*>(lengths)[set]
                                         : static_cast<int32_t>(static_cast<const int64_t*>(lengths)[set]);
}

// The work of a thread block: compares a tile of points x of a set, from x_begin on, with points y of the set.
struct NearestPart {
  int64_t set;
  uint32_t split;
  int32_t num_x;    // points x in the set
  int32_t num_y;    // points y in the set
  int64_t x_begin;  // inside the set
  int32_t y_begin;  // inside the set; a multiple of kGroup unless the part is empty
  int32_t y_end;

  // Returns the part of the calling thread block. kTile is the number of points x per thread block. Parts of y begin at
  // multiples of kGroup.
  template <int kTile, int kGroup>
  static __device__ __forceinline__ NearestPart Of(const NearestParams& params) {
    NearestPart part;
    part.split = blockIdx.x % params.num_splits;
    const uint32_t tile = blockIdx.x / params.num_splits;
    part.set = tile / params.num_x_tiles;
    part.x_begin = static_cast<int64_t>(tile % params.num_x_tiles) * kTile;
    part.num_x = LengthOf(params.call, params.call.x_lengths, params.call.max_x, part.set);
    part.num_y = LengthOf(params.call, params.call.y_lengths, params.call.max_y, part.set);
    const int64_t wanted = (static_cast<int64_t>(part.num_y) + params.num_splits - 1) / params.num_splits;
    const int64_t size = (wanted + kGroup - 1) / kGroup * kGroup;
    const int64_t begin = size * part.split;
    part.y_begin = static_cast<int32_t>(begin < part.num_y ? begin : part.num_y);
    part.y_end = static_cast<int32_t>(begin + size < part.num_y ? begin + size : part.num_y);
    return part;
  }
};

// Writes the final result of point `x` of a set. If x >= num_x, the result is 0 and -1. If num_y is 0, argmin is -1.
__device__ __forceinline__ void WriteNearest(const NearestParams& params, int64_t set, int64_t x, int32_t num_x,
                                             int32_t num_y, float distance, int32_t argmin) {
  const int64_t row = set * params.call.max_x + x;
  params.distances[row] = x < num_x ? distance : 0.0f;
  params.argmin[row] = x < num_x && num_y > 0 ? argmin : -1;
}

// Writes the result of this part of y for point `x`; if there is only one part, it is the final result.
__device__ __forceinline__ void WritePart(const NearestParams& params, const NearestPart& part, int64_t x,
                                          float distance, int32_t argmin) {
  if (params.num_splits == 1) {
    WriteNearest(params, part.set, x, part.num_x, part.num_y, distance, argmin);
    return;
  }
  const int64_t row = (part.split * params.call.num_sets + part.set) * params.call.max_x + x;
  params.split_distances[row] = distance;
  params.split_argmin[row] = argmin;
}

}  // namespace maxsim::library
