// The description of a token tile in shared memory (kernels/token_tile.h): the loading warp writes it before the tile's
// `full` barrier, and the multiplying warps read it until they let the tile go.
#pragma once

#include <cstdint>

#include "kernels/cuda/sm90/ptx/shared.cuh"
#include "kernels/token_tile.h"

namespace maxsim::cuda::sm90 {

// Eight groups to a word.
inline constexpr int kGroupsOfWord = 8;
inline constexpr int kMaxGroupWords = 3;

// What must be known of a tile before it is multiplied: the header's begin.
struct TileFlags {
  uint32_t flags = 0;  // 0 ends the work
  uint32_t ends = 0;   // groups with a document's last token

  static constexpr uint32_t kWarpgroup0 = 1, kWarpgroup1 = 2, kNewRows = 4;

  __device__ __forceinline__ bool End() const { return flags == 0; }
  __device__ __forceinline__ bool IsFor(int warpgroup) const { return (flags & kWarpgroup0 << warpgroup) != 0; }
  // The tile, and what follows, is for the header's row_tile.
  __device__ __forceinline__ bool NewRows() const { return (flags & kNewRows) != 0; }

  // All of a warp read; from one lane, so that the compiler knows it to be the same for the whole warp.
  __device__ __forceinline__ static TileFlags Load(uint32_t entry) {
    const uint2 words = LoadShared64(entry);
    return {__shfl_sync(0xffffffffu, words.x, 0), __shfl_sync(0xffffffffu, words.y, 0)};
  }
};

// What to do with a tile: kTileHeaderBytes.
struct TileHeader : TileFlags {
  int32_t row_tile = 0;
  int32_t groups = 0;  // that hold documents; what lies behind them is anything
  int32_t pieces = 0;
  uint32_t lasts[kMaxGroupWords] = {};  // of every group in `ends`, three bits: that token's place in it

  __device__ __forceinline__ int Last(int group) const {
    return static_cast<int>(lasts[group / kGroupsOfWord] >> group % kGroupsOfWord * 3 & 7);
  }

  // One lane writes; all of a warp read.
  __device__ __forceinline__ void Store(uint32_t entry) const {
    StoreShared(entry, flags, ends, static_cast<uint32_t>(row_tile), static_cast<uint32_t>(groups));
    StoreShared(entry + 16, lasts[0], lasts[1], lasts[2], static_cast<uint32_t>(pieces));
  }
  __device__ __forceinline__ static TileHeader Load(uint32_t entry) {
    TileHeader header;
    uint32_t row_tile, groups, pieces;
    LoadShared(entry, header.flags, header.ends, row_tile, groups);
    LoadShared(entry + 16, header.lasts[0], header.lasts[1], header.lasts[2], pieces);
    header.row_tile = static_cast<int32_t>(row_tile);
    header.groups = static_cast<int32_t>(groups);
    header.pieces = static_cast<int32_t>(pieces);
    return header;
  }
};

// A document of which the tile has a piece. Those that end in it come first, in the order in which they do.
struct TilePiece {
  uint32_t position;  // in the list of candidates
  float scale;        // of a quantised document

  static __device__ __forceinline__ uint32_t Address(uint32_t entry, int piece) {
    return entry + kTileHeaderBytes + piece * kTilePieceBytes;
  }
  __device__ __forceinline__ void Store(uint32_t address) const {
    StoreShared64(address, position, __float_as_uint(scale));
  }
  __device__ __forceinline__ static TilePiece Load(uint32_t address) {
    const uint2 words = LoadShared64(address);
    return {words.x, __uint_as_float(words.y)};
  }
};

}  // namespace maxsim::cuda::sm90
