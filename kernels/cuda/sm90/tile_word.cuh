// What the loading warp tells the multiplying warps about a token tile, beside its data.
#pragma once

#include <cstdint>

#include "kernels/scalar_type.h"

namespace maxsim::cuda::sm90 {

// Tokens of the wgmma instances: every multiple of this up to a tile's.
inline constexpr int32_t kTokenGrain = 16;

// That of a wide kernel. For rows of INT8 of two halves ptxas serialises wgmma where the instances are more.
constexpr int32_t WideTokenGrain(ScalarType type, int halves) {
  return type == ScalarType::kI8 && halves == 2 ? 32 : kTokenGrain;
}

// Written before the tile's `full` barrier, read after it and before the tile is let go.
struct TileEntry {
  uint32_t word;      // see TileWord; 0 ends the work
  uint32_t position;  // of the document in its list of candidates
  int32_t row_tile;
  float scale;  // of a quantised document
};
static_assert(sizeof(TileEntry) == 16);

// A tile in 32 bits.
class TileWord {
 public:
  TileWord() = default;
  __device__ __forceinline__ explicit TileWord(uint32_t bits) : bits_(bits) {}

  // A tile of `tokens` tokens for the warpgroups of the mask.
  template <int kGrain = kTokenGrain>
  static __device__ __forceinline__ uint32_t Pack(int32_t tokens, bool last, bool new_rows, uint32_t warpgroups) {
    const uint32_t grains = (tokens + kGrain - 1) / kGrain;
    return grains | (last ? kLast : 0) | (new_rows ? kNewRows : 0) | warpgroups * kWarpgroup0 | tokens << kTokensShift;
  }

  __device__ __forceinline__ bool End() const { return bits_ == 0; }
  // Tokens over the grain, rounded up: names the instance that multiplies the tile.
  __device__ __forceinline__ int Grains() const { return static_cast<int>(bits_ & kGrainsMask); }
  __device__ __forceinline__ int Tokens() const { return static_cast<int>(bits_ >> kTokensShift); }
  // The document ends with this tile.
  __device__ __forceinline__ bool Last() const { return (bits_ & kLast) != 0; }
  // The tile, and what follows, is for the row tile of its entry.
  __device__ __forceinline__ bool NewRows() const { return (bits_ & kNewRows) != 0; }
  __device__ __forceinline__ bool IsFor(int warpgroup) const { return (bits_ & kWarpgroup0 << warpgroup) != 0; }

 private:
  static constexpr uint32_t kGrainsMask = 0xf, kLast = 1 << 4, kNewRows = 1 << 5, kWarpgroup0 = 1 << 6;
  static constexpr int kTokensShift = 16;

  uint32_t bits_ = 0;
};

}  // namespace maxsim::cuda::sm90
