// The token tiles of the Hopper kernels that hold many query rows: what plan and kernels both compute from.
//
// Documents lie in a tile end to end, whatever their lengths, each from the next *octet* (eight tokens) on; one may
// begin in one tile and end in another. So a tile is full until there are no more documents, but for a wide one, which
// takes no more once kWideMostEnds end in it; and a document wastes at most seven tokens. Documents' parts in a tile
// are its *pieces*. With every tile travels a description: a header, and of every piece which document it is.
#pragma once

#include <cstdint>

namespace maxsim {

// Tensor copies and wgmma tell no fewer tokens apart: swizzled rows come in eights, and a thread's sums too.
inline constexpr int32_t kOctetTokens = 8;

// Returns the octets that so many tokens of a document take.
constexpr int32_t OctetsIn(int32_t tokens) { return (tokens + kOctetTokens - 1) / kOctetTokens; }

// Returns the octets of a token tile.
constexpr int32_t TileOctets(int32_t tile_tokens) { return tile_tokens / kOctetTokens; }

inline constexpr int32_t kTileHeaderBytes = 32;
inline constexpr int32_t kTilePieceBytes = 8;  // position, scale

// The loading warp notes so much of a piece for those who copy it and repeat its last token.
inline constexpr int32_t kPieceNoteBytes = 8;

// A work unit is handed over in a slot (work_unit_slot.cuh), which has row tile and count, and of up to 32 candidates
// position, rows and scale. The slot has so many barriers, of 8 bytes as every barrier.
inline constexpr int32_t kUnitHeadBytes = 16;
inline constexpr int32_t kUnitEntryBytes = 16;
inline constexpr int32_t kUnitBarriers = 2;

// The structs below are room in shared memory. Kernels read and write it by address, in words of 8 or 16 bytes: what is
// in it say token_tile.cuh and work_unit_slot.cuh.

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
