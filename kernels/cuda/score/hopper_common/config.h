// Token tiles of the Hopper kernels that hold many query rows: what plan and kernels both compute from.
//
// Documents lie in a tile end to end, whatever their lengths, each from the next *octet* (eight tokens) on; one may
// begin in one tile and end in another. So a tile is full until there are no more documents, but for a wide one, which
// takes no more once kWideMostEnds end in it; and a document wastes at most seven tokens. Documents' parts in a tile
// are its *pieces*. With every tile travels a description: a header, and of every piece which document it is.
#pragma once

#include <cstdint>

namespace maxsim {

// What tensor copies and wgmma can tell apart: swizzled rows come in eights, and a thread's sums too.
inline constexpr int32_t kOctetTokens = 8;

// Returns the octets that so many tokens of a document take.
constexpr int32_t OctetsIn(int32_t tokens) { return (tokens + kOctetTokens - 1) / kOctetTokens; }

constexpr int32_t TileOctets(int32_t tile_tokens) { return tile_tokens / kOctetTokens; }

inline constexpr int32_t kTileHeaderBytes = 32;
inline constexpr int32_t kTilePieceBytes = 8;  // position, scale

// What the loading warp notes of a piece for those who copy it and repeat its last token.
inline constexpr int32_t kPieceNoteBytes = 8;

// The slot that a work unit is handed over in (kernels/cuda/score/hopper_common/work_unit_slot.cuh): row tile
// and count, and of up to 32 candidates position, rows and scale. It has two barriers.
inline constexpr int32_t kUnitHeadBytes = 16;
inline constexpr int32_t kUnitEntryBytes = 16;
inline constexpr int32_t kUnitSlotBytes = kUnitHeadBytes + 32 * kUnitEntryBytes;
inline constexpr int32_t kUnitBarrierBytes = 2 * 8;

// Returns the bytes of the description of a tile of so many pieces at most.
constexpr int32_t TileEntryBytes(int32_t most_pieces) { return kTileHeaderBytes + most_pieces * kTilePieceBytes; }

}  // namespace maxsim
