// Sort keys: unsigned integers in rank order (kernels/rank_order.h), the best first when descending.
#pragma once

#include <cstdint>

namespace maxsim::cuda {

// Returns an integer of at least 1. The higher the score, the larger the integer. -0 counts as +0, as in the rank
// order.
__device__ __forceinline__ uint32_t OrderedBits(float score) {
  const uint32_t bits = __float_as_uint(__fadd_rn(score, 0.0f));
  return bits ^ ((bits & 0x80000000u) ? 0xffffffffu : 0x80000000u);
}

// Returns the score that OrderedBits was called with, or +0 if that was -0.
__device__ __forceinline__ float FromOrderedBits(uint32_t ordered) {
  return __uint_as_float(ordered ^ ((ordered & 0x80000000u) ? 0x80000000u : 0xffffffffu));
}

// Returns a key. The better the candidate ranks, the larger its key. The score's OrderedBits are in the key's high
// bits, and the inverted position is in its low bits.
__device__ __forceinline__ uint64_t MakeKey(float score, uint32_t position) {
  return (static_cast<uint64_t>(OrderedBits(score)) << 32) | static_cast<uint32_t>(~position);
}

__device__ __forceinline__ float ScoreOf(uint64_t key) { return FromOrderedBits(static_cast<uint32_t>(key >> 32)); }
__device__ __forceinline__ uint32_t PositionOf(uint64_t key) { return ~static_cast<uint32_t>(key); }

}  // namespace maxsim::cuda
