// Running maxima of a warp's rows over a document's tokens, with or without the token that has the maximum.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/sums.cuh"

namespace maxsim::cuda::sm80 {

// Returns whether (value, token) is better than the other pair: a larger value is better, and of equal values the
// smaller token. So the best does not depend on the order of comparisons.
template <class Value>
__device__ __forceinline__ bool Beats(Value value, int32_t token, Value other_value, int32_t other_token) {
  return value > other_value || (value == other_value && token < other_token);
}

// Each lane has the maxima of its row slots over the tokens that it has seen. Merge combines the four lanes of a row.
template <class Value, int kRowSlots, bool kTokens>
class RowMaxima {
 public:
  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int r = 0; r < kRowSlots; ++r) {
      value_[r] = LowestSum<Value>();
      if constexpr (kTokens) token_[r] = INT32_MAX;
    }
  }

  // Updates the maxima with a tile whose first token is `first_token`. Tokens num_valid and later of the warp's part
  // are masked: their products were computed from undefined memory.
  template <class Tile>
  __device__ __forceinline__ void Add(const Tile& tile, int lane, int first_token, int num_valid, bool mask) {
    if (mask) {
      AddTile<true>(tile, lane, first_token, num_valid);
    } else {
      AddTile<false>(tile, lane, first_token, num_valid);
    }
  }

  __device__ __forceinline__ void Merge() {
#pragma unroll
    for (int r = 0; r < kRowSlots; ++r) {
#pragma unroll
      for (int distance = 1; distance < 4; distance *= 2) {
        const Value value = __shfl_xor_sync(0xffffffffu, value_[r], distance);
        if constexpr (kTokens) {
          const int32_t token = __shfl_xor_sync(0xffffffffu, token_[r], distance);
          if (Beats(value, token, value_[r], token_[r])) {
            value_[r] = value;
            token_[r] = token;
          }
        } else {
          value_[r] = Larger(value_[r], value);
        }
      }
    }
  }

  // Writes the maximum of row slot r to [lane / 4 + 8 r]. All lanes must call it, after Merge.
  __device__ __forceinline__ void Store(Value* values, int32_t* tokens, int lane) const {
    if (lane % 4 != 0) return;
#pragma unroll
    for (int r = 0; r < kRowSlots; ++r) {
      values[lane / 4 + 8 * r] = value_[r];
      if constexpr (kTokens) tokens[lane / 4 + 8 * r] = token_[r];
    }
  }

 private:
  template <bool kMask, class Tile>
  __device__ __forceinline__ void AddTile(const Tile& tile, int lane, int first_token, int num_valid) {
#pragma unroll
    for (int c = 0; c < Tile::kTokenSlots; ++c) {
      const int token = Tile::TokenOf(lane, c);
      if (kMask && token >= num_valid) continue;
#pragma unroll
      for (int r = 0; r < kRowSlots; ++r) {
        const Value value = tile.Value(r, c);
        if constexpr (kTokens) {
          if (value > value_[r]) {  // tokens come in ascending order, so the first of equals stays
            value_[r] = value;
            token_[r] = first_token + token;
          }
        } else {
          value_[r] = Larger(value_[r], value);
        }
      }
    }
  }

  Value value_[kRowSlots];
  int32_t token_[kTokens ? kRowSlots : 1];
};

}  // namespace maxsim::cuda::sm80
