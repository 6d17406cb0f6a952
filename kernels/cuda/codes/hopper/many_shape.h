// The layout of shared memory of the Hopper kernel for many queries (scan_many.cuh), and the size of its passes. The
// host and the kernel both compute with them.
#pragma once

#include <cstdint>

#include "kernels/cuda/codes/common/scan_params.h"

namespace maxsim::cuda::sm90 {

inline constexpr int kGroupThreads = 128;
inline constexpr int kGroupWarps = 4;
inline constexpr int kManyGroups = 4;  // warpgroups of a thread block; with three a scan takes 16 % longer (H200)
inline constexpr int kManyThreads = kManyGroups * kGroupThreads;

inline constexpr int kTileOctets = 16;                          // of 8 tokens, which are multiplied together
inline constexpr uint32_t kTokenBytes = kTileOctets * 8 * 128;  // of a tile that has been expanded
inline constexpr uint32_t kBlockBytes = 64 * 128;               // of a block of rows

// The row tiles and queries of one launch.
struct ManyPass {
  int32_t first_tile;
  int32_t num_tiles;
  int32_t first_query;
  int32_t num_queries;

  // Returns the number of blocks of rows. A block has four row tiles.
  constexpr int32_t num_blocks() const { return (num_tiles + kGroupWarps - 1) / kGroupWarps; }
};

// Addresses of what lies in shared memory.
class ManyShared {
 public:
  constexpr ManyShared(uint32_t base, int32_t num_blocks) : base_(base), blocks_(static_cast<uint32_t>(num_blocks)) {}

  // [num_blocks, 64 rows, 128 bytes], an operand of wgmma.
  constexpr uint32_t Query() const { return base_; }
  // [128 tokens, 128 bytes] for each warpgroup, an operand of wgmma.
  constexpr uint32_t Tokens(int group) const { return TokensAt() + group * kTokenBytes; }
  // [num_blocks, 128 threads] for each warpgroup: the maxima so far of a thread's two rows.
  constexpr uint32_t Carried(int group) const { return CarriedAt() + group * (blocks_ * kCarriedBytes); }
  // [row tiles, 16 documents] for each warpgroup: sums of a row tile's terms, in two parts.
  constexpr uint32_t TileSums(int group) const { return TileSumsAt() + group * (blocks_ * kTileSumBytes); }
  // [16] for each warpgroup: the documents that end in the tile (OctetChunk::NameEnded).
  constexpr uint32_t Ended(int group) const { return EndedAt() + group * kEndedBytes; }
  // [rows, 16 bytes]: offset, multiplier, and 0x80000000 if terms below 0 count as 0, else 0.
  constexpr uint32_t Rows() const { return RowsAt(); }
  // [queries of the pass]: ScanQueryParams.
  constexpr uint32_t Queries() const { return RowsAt() + blocks_ * kRowBytes; }
  // For each query of the pass, its first row tile and the one after its last.
  constexpr uint32_t QueryTiles() const { return Queries() + blocks_ * kQueryBytes; }

  constexpr uint32_t end() const { return QueryTiles() + blocks_ * kGroupWarps * 8; }

 private:
  static constexpr uint32_t kCarriedBytes = kGroupThreads * 8;
  static constexpr uint32_t kTileSumBytes = kGroupWarps * kTileOctets * 8;
  static constexpr uint32_t kEndedBytes = kTileOctets * 16;
  static constexpr uint32_t kRowBytes = 64 * 16;
  static constexpr uint32_t kQueryBytes = kGroupWarps * sizeof(ScanQueryParams);  // a query has a row tile or more

  constexpr uint32_t TokensAt() const { return base_ + blocks_ * kBlockBytes; }
  constexpr uint32_t CarriedAt() const { return TokensAt() + kManyGroups * kTokenBytes; }
  constexpr uint32_t TileSumsAt() const { return CarriedAt() + kManyGroups * blocks_ * kCarriedBytes; }
  constexpr uint32_t EndedAt() const { return TileSumsAt() + kManyGroups * blocks_ * kTileSumBytes; }
  constexpr uint32_t RowsAt() const { return EndedAt() + kManyGroups * kEndedBytes; }

  uint32_t base_;
  uint32_t blocks_;
};

// Returns the bytes of shared memory of a thread block.
constexpr uint32_t ManySharedBytes(int32_t num_blocks) { return ManyShared(0, num_blocks).end(); }

inline constexpr uint32_t kMaxSharedBytes = 232448;  // 227 KiB, the most that a thread block of an sm_90 device has

// Returns the most blocks of rows that shared memory has room for.
constexpr int32_t MaxManyBlocks() {
  int32_t blocks = 1;
  while (ManySharedBytes(blocks + 1) <= kMaxSharedBytes) ++blocks;
  return blocks;
}
inline constexpr int32_t kMaxManyTiles = MaxManyBlocks() * kGroupWarps;

}  // namespace maxsim::cuda::sm90
