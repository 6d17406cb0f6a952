// The token tiles of the wide and deep Hopper kernels, as both the plan and the kernels compute them.
//
// Documents of any length lie in a tile one after the other, and each document starts at the next *octet* (eight
// tokens), so a document wastes at most seven tokens. A document may begin in one tile and end in a later one, so every
// tile but the last is full, with one exception: a wide tile takes no further document once kWideMostEnds documents end
// in it. The part of a document in a tile is a *piece*. Each tile has a description: a header and, for every piece, the
// document that it belongs to.
#pragma once

#include <cstdint>

namespace maxsim {

// Tensor copies and wgmma work in units of eight tokens: a swizzled block has eight rows, and a thread's sums cover
// eight tokens.
inline constexpr int32_t kOctetTokens = 8;

// Returns the number of octets that `tokens` tokens of a document take.
constexpr int32_t OctetsIn(int32_t tokens) { return (tokens + kOctetTokens - 1) / kOctetTokens; }

// Returns the octets of a token tile.
constexpr int32_t TileOctets(int32_t tile_tokens) { return tile_tokens / kOctetTokens; }

inline constexpr int32_t kTileHeaderBytes = 32;
inline constexpr int32_t kTilePieceBytes = 8;  // position, scale

// Bytes of the note that the loading warp writes for each piece. The note is read by the warp that copies the piece
// and, in wide kernels, by the warp that repeats its last token.
inline constexpr int32_t kPieceNoteBytes = 8;

// The scheduler warp hands a work unit (up to 32 candidates of one row tile) to the other warps in a slot
// (work_unit_slot.cuh): a head with the row tile and the count, then an entry with position, rows and scale for each
// candidate. The slot has kUnitBarriers barriers of 8 bytes each.
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

// Room for the notes on the pieces of a token tile.
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
