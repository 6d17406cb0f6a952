// The forward pass on Hopper (sm_90a), of half-precision rows of up to 256 bytes: which calls it takes, how it cuts
// them, and its launches. It gives the bits of the kernels of forward.h.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/library/cuda/forward.h"
#include "kernels/plan/rows.h"
#include "kernels/scalar_type.h"

namespace maxsim::library {

// A warpgroup multiplies 128 query rows, a query tile a warp, with tiles of so many document tokens.
inline constexpr int32_t kHopperTokens = 96;
inline constexpr int32_t kHopperWarps = 4;          // of a warpgroup, each with a query tile
inline constexpr int32_t kHopperMaxRowBytes = 256;  // a row is one or two halves ...
inline constexpr int32_t kHopperHalfBytes = 128;    // ... of so many bytes, the width of the copy engine's swizzle
inline constexpr int32_t kHopperBoxTokens = 32;     // tokens that the copy engine brings at a time
static_assert(kHopperTokens % kHopperBoxTokens == 0);

// What the loading warp says of a tile. It takes 32 bytes.
struct HopperTile {
  uint32_t counts[kHopperTokens / 32];  // of each token, whether it is the document's and counts
  int32_t first_token;                  // the tile's first one, in the document
  uint32_t flags;
  int32_t num_tokens;  // 0 .. kHopperTokens, of the document
  int64_t place;       // of the document in the query's list

  static constexpr uint32_t kLastOfDocument = 1;
  static constexpr uint32_t kEndOfWork = 2;
};
static_assert(sizeof(HopperTile) == 32);

// How a call is cut into thread blocks.
struct HopperForwardPlan {
  int32_t warpgroups = 2;           // that multiply: 1 or 2
  int64_t tiles_a_list = 0;         // query tiles that meet the same documents, consecutive ones
  int64_t row_tiles = 0;            // thread blocks that share these
  int64_t num_lists = 0;            // 1 where all queries meet the same documents, otherwise the queries
  int64_t documents_per_block = 0;  // consecutive documents of a list
  int64_t splits = 0;               // thread blocks that share a list
  int64_t num_blocks = 0;
};

struct HopperForwardParams {
  ForwardParams forward;
  HopperForwardPlan plan;
  float one = 1;          // a factor that the compiler does not know: RaiseTo says what for
  CUtensorMap documents;  // boxes of kHopperBoxTokens rows of kHopperHalfBytes
};

// Says whether the kernels take a call on the current device, and fills `params` in for those that they take.
bool PrepareHopperForward(const ForwardParams& forward, ScalarType type, HopperForwardParams* params);

// Launches the kernel for a type, kF16 or kBF16.
template <ScalarType kType>
struct HopperForwardLauncher {
  static cudaError_t Launch(const HopperForwardParams& params, cudaStream_t stream);
};

}  // namespace maxsim::library
