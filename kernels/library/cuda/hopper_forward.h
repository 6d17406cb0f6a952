// The forward pass on Hopper (sm_90a) for half-precision rows of up to 256 bytes and INT8 rows of up to 128: which
// calls it takes, how it divides a call into thread blocks, and its launches. Its results have the same bits as those
// of the kernels of forward.h.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/library/cuda/forward.h"
#include "kernels/plan/rows.h"
#include "kernels/scalar_type.h"

namespace maxsim::library {

// Document tokens per tile. A warpgroup multiplies them with 128 query rows: one query tile of 32 rows per warp.
inline constexpr int32_t kHopperTokens = 96;
inline constexpr int32_t kHopperWarps = 4;        // per warpgroup, each with one query tile
inline constexpr int32_t kHopperHalfBytes = 128;  // the width of the copy engine's swizzle
inline constexpr int32_t kHopperBoxTokens = 32;   // tokens per copy of the copy engine

// Returns the size in bytes of the widest rows that the kernel takes: 256, or 128 for INT8. Wider INT8 rows would need
// more registers than a thread has, because their sums are converted to FP32.
constexpr int32_t HopperMaxRowBytes(ScalarType type) {
  return type == ScalarType::kI8 ? kHopperHalfBytes : 2 * kHopperHalfBytes;
}
static_assert(kHopperTokens % kHopperBoxTokens == 0);

// The loading warp's description of a tile for the multiplying warps.
struct HopperTile {
  uint32_t counts[kHopperTokens / 32];  // a bit per token: whether it belongs to the document and counts
  int32_t first_token;                  // index in the document of the tile's first token
  uint32_t flags;
  int32_t num_tokens;  // tokens of the document in the tile, 0 .. kHopperTokens
  int64_t place;       // the document's position in the query's list

  static constexpr uint32_t kLastOfDocument = 1;
  static constexpr uint32_t kEndOfWork = 2;
};
static_assert(sizeof(HopperTile) == 32);

// How a call is divided into thread blocks.
struct HopperForwardPlan {
  int32_t warpgroups = 2;           // multiplying warpgroups per thread block: 1 or 2
  int64_t tiles_a_list = 0;         // consecutive query tiles that are multiplied with the same documents
  int64_t row_tiles = 0;            // thread blocks that share those query tiles
  int64_t num_lists = 0;            // 1 if all queries have the same documents, otherwise one per query
  int64_t documents_per_block = 0;  // consecutive documents of a list
  int64_t splits = 0;               // thread blocks that share a list
  int64_t num_blocks = 0;
};

struct HopperForwardParams {
  ForwardParams forward;
  HopperForwardPlan plan;
  float one = 1;          // a factor that the compiler cannot know; RaiseTo says why
  CUtensorMap documents;  // boxes of kHopperBoxTokens rows of kHopperHalfBytes
};

// Returns whether these kernels can run the call on the current device. If so, sets `params`.
bool PrepareHopperForward(const ForwardParams& forward, ScalarType type, HopperForwardParams* params);

// Launches the kernel for a type, kF16, kBF16 or kI8.
template <ScalarType kType>
struct HopperForwardLauncher {
  static cudaError_t Launch(const HopperForwardParams& params, cudaStream_t stream);
};

}  // namespace maxsim::library
