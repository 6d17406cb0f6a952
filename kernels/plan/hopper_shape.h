// The token tiles of the Hopper kernels that hold many query rows: what plan and kernels both compute from.
//
// Documents lie in a tile end to end, whatever their lengths, each starting at the next *octet* (eight tokens); one may
// begin in one tile and end in another. So tiles are full until there are no more documents, except that a wide tile
// takes no more once kWideMostEnds end in it; and a document wastes at most seven tokens. Documents' parts in a tile
// are its *pieces*. Each tile has a description: a header, and for every piece which document it is.
#pragma once

#include <cstdint>

namespace maxsim {

// Tensor copies and wgmma work in units of eight tokens: swizzled rows come in eights, and so do a thread's sums.
inline constexpr int32_t kOctetTokens = 8;

// Returns the number of octets that `tokens` tokens of a document take.
constexpr int32_t OctetsIn(int32_t tokens) { return (tokens + kOctetTokens - 1) / kOctetTokens; }

// Returns the octets of a token tile.
constexpr int32_t TileOctets(int32_t tile_tokens) { return tile_tokens / kOctetTokens; }

inline constexpr int32_t kTileHeaderBytes = 32;
inline constexpr int32_t kTilePieceBytes = 8;  // position, scale

// Bytes of the loading warp's note on a piece, for the warps that copy the piece and repeat its last token.
inline constexpr int32_t kPieceNoteBytes = 8;

// A work unit is handed over in a slot (work_unit_slot.cuh), which has row tile and count, then position, rows and
// scale of up to 32 candidates. The slot has kUnitBarriers barriers of 8 bytes each.
inline constexpr int32_t kUnitHeadBytes = 16;
inline constexpr int32_t kUnitEntryBytes = 16;
inline constexpr int32_t kUnitBarriers = 2;

// The structs below only reserve shared memory. Kernels read and write it by address, in words of 8 or 16 bytes;
// token_tile.cuh and work_unit_slot.cuh say what is in it.

// Room for the description of a token tile of at most kMaxPieces pieces.
template <int32_t kMaxPieces>
struct alignas(16) TileSpace {
  uint8_t header[kTileHeaderBytes];
  uint8_t pieces[kMaxPieces][kTilePieceBytes];
};

// Room for what is noted of the pieces of a token tile.
template <int32_t kMaxPieces>
struct alignas(8) NotesSpace {
  uint8_t notes[kMaxPieces][kPieceNoteBytes];
};

// Room for a work unit.
struct alignas(16) WorkUnitSpace {
  uint8_t head[kUnitHeadBytes];
  uint8_t entries[32][kUnitEntryBytes];
};

}  // namespace maxsim
