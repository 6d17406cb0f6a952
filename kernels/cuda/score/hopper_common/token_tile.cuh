// The description of a token tile in shared memory (kernels/plan/hopper_shape.h): the loading warp writes it, and
// others read it until the multiplying warps release the tile.
#pragma once

#include <cstdint>

#include "kernels/cuda/score/hopper_common/ptx/shared.cuh"
#include "kernels/plan/hopper_shape.h"

namespace maxsim::cuda::sm90 {

// Eight octets share a word.
inline constexpr int kOctetsOfWord = 8;
inline constexpr int kMaxOctetWords = 3;

// Number of lanes of a multiplying warp that read a tile's description: the first lane reads its header, and all of
// them read its pieces. Each of these lanes releases the tile for itself. One lane could release it for all after a
// barrier of the warp. But ptxas omits that barrier because it knows that the warp is converged. racecheck does not
// know it, and would report a race.
inline constexpr int kReadingLanes = 4;

// Number of lanes of a warp that describe a tile, copy it or write to it. Each lane hands the tile over for itself,
// because ptxas omits the barrier that a single lane would need (kReadingLanes).
inline constexpr int kWritingLanes = 32;

// Where documents end in a tile.
struct TileEnds {
  // The bits of `ends` in a wide tile.
  static constexpr uint32_t kWideOctets = (1u << 16) - 1;  // its octets, 16 of them
  static constexpr int kOctetsOfQuarter = 4;
  static constexpr uint32_t kInOneQuarter = 1u << 16;  // all ends are in one quarter of the tile ...
  static constexpr int kQuarterAt = 17;                // ... whose number these two bits are
  static constexpr uint32_t kAfterMany = 1u << 19;     // more than kFewEnds documents end in the tile before
  static constexpr uint32_t kNothingOpen = 1u << 24;   // no document goes on in the next tile
  static constexpr int kFewEnds = 4;

  uint32_t ends = 0;                    // octets with a document's last token; in a wide tile also the bits above
  uint32_t lasts[kMaxOctetWords] = {};  // deep: three bits for each octet in `ends`: the last token's place in it

  __device__ __forceinline__ uint32_t Last(int octet) const {
    return lasts[octet / kOctetsOfWord] >> octet % kOctetsOfWord * 3 & 7;
  }
};

// The header of a tile tells the warps what to do with the tile. A header has kTileHeaderBytes bytes.
struct TileHeader : TileEnds {
  uint32_t flags = 0;  // 0 ends the work
  int32_t row_tile = 0;
  int32_t octets = 0;  // number of octets that hold documents; later octets are undefined
  int32_t pieces = 0;

  static constexpr uint32_t kWarpgroup0 = 1, kWarpgroup1 = 2, kNewRows = 4;

  __device__ __forceinline__ bool End() const { return flags == 0; }
  // Returns whether the multiplying warps must take the rows of row_tile: the previous tile was for another row tile.
  __device__ __forceinline__ bool NewRows() const { return (flags & kNewRows) != 0; }

  // Stores the header. One lane calls it.
  __device__ __forceinline__ void Store(uint32_t entry) const {
    StoreShared(entry, flags, ends, lasts[0], lasts[1]);
    StoreShared(entry + 16, lasts[2], static_cast<uint32_t>(row_tile), static_cast<uint32_t>(octets),
                static_cast<uint32_t>(pieces));
  }

  // Loads the flags, and the octets in which documents end. One lane calls it.
  __device__ __forceinline__ static TileHeader LoadFirst(uint32_t entry) {
    TileHeader header;
    const uint2 words = LoadShared64(entry);
    header.flags = words.x;
    header.ends = words.y;
    return header;
  }

  // The first lane reads for the whole warp, so that the compiler knows that the value is the same in all lanes.
  __device__ __forceinline__ static TileHeader Load(uint32_t entry, int lane) {
    TileHeader header;
    uint32_t row_tile = 0;
    if (lane == 0) {
      LoadShared(entry, header.flags, header.ends, header.lasts[0], header.lasts[1]);
      const uint2 words = LoadShared64(entry + 16);
      header.lasts[2] = words.x;
      row_tile = words.y;
    }
    header.flags = __shfl_sync(0xffffffffu, header.flags, 0);
    header.ends = __shfl_sync(0xffffffffu, header.ends, 0);
#pragma unroll
    for (uint32_t& last : header.lasts) last = __shfl_sync(0xffffffffu, last, 0);
    header.row_tile = static_cast<int32_t>(__shfl_sync(0xffffffffu, row_tile, 0));
    header.LoadSize(entry, lane);
    return header;
  }

  // Loads only flags and ends, for the whole warp.
  __device__ __forceinline__ void LoadWork(uint32_t entry, int lane) {
    if (lane == 0) *this = LoadFirst(entry);
    flags = __shfl_sync(0xffffffffu, flags, 0);
    ends = __shfl_sync(0xffffffffu, ends, 0);
  }

  // Loads octets and pieces for the whole warp. A tile without octets ends the work, too.
  __device__ __forceinline__ void LoadSize(uint32_t entry, int lane) {
    uint2 words{};
    if (lane == 0) words = LoadShared64(entry + 24);
    octets = static_cast<int32_t>(__shfl_sync(0xffffffffu, words.x, 0));
    pieces = static_cast<int32_t>(__shfl_sync(0xffffffffu, words.y, 0));
  }

  __device__ __forceinline__ static int32_t LoadRowTile(uint32_t entry, int lane) {
    uint32_t row_tile = 0;
    if (lane == 0) row_tile = LoadShared(entry + 20);
    return static_cast<int32_t>(__shfl_sync(0xffffffffu, row_tile, 0));
  }
};

// A document that has a piece in the tile. Documents that end in the tile come first, in the order of their ends.
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

// Says how to copy a piece: `octets` octets, from row `row` of the token array, to the tile's octets from `first` on.
// If the document ends in the tile, `last` is the place of its last token in the last of these octets.
struct PieceNote {
  int32_t row = 0;
  int32_t first = 0;
  int32_t octets = 0;
  uint32_t last = 0;

  __device__ __forceinline__ void Store(uint32_t notes, int piece) const {
    StoreShared64(notes + piece * kPieceNoteBytes, static_cast<uint32_t>(row),
                  static_cast<uint32_t>(first | octets << 8) | last << 16);
  }
  __device__ __forceinline__ static PieceNote Load(uint32_t notes, int piece) {
    const uint2 words = LoadShared64(notes + piece * kPieceNoteBytes);
    return {static_cast<int32_t>(words.x), static_cast<int32_t>(words.y & 0xff),
            static_cast<int32_t>(words.y >> 8 & 0xff), words.y >> 16};
  }
};

}  // namespace maxsim::cuda::sm90
