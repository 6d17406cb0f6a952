// The kernels of the forward pass: parameters, shared memory and launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/library/cuda/device_problem.h"
#include "kernels/plan/rows.h"
#include "kernels/plan/shared_arrays.h"
#include "kernels/scalar_type.h"

namespace maxsim::library {

// Each warp has 16 rows (tokens) of the query. A thread block multiplies them with tiles of 64 document tokens, 128
// bytes of each row at a time (a chunk).
inline constexpr int32_t kForwardWarpRows = 16;
inline constexpr int32_t kForwardTokens = 64;
inline constexpr int32_t kForwardChunkBytes = 128;
inline constexpr int32_t kForwardPitch = kForwardChunkBytes + 16;  // 16 bytes against bank conflicts
inline constexpr int32_t kForwardStages = 3;

// Query rows stay in shared memory if they take at most this many bytes. With the ring of document chunks, that is less
// than the 99 KB that every device from compute capability 8.0 on has.
inline constexpr int64_t kMaxResidentBytes = 64 * 1024;

// How a call is divided into thread blocks.
struct ForwardPlan {
  int32_t num_warps = 2;            // 2 or 4: thread blocks of 32 or 64 query rows
  int64_t row_tiles = 1;            // thread blocks that share a query
  int64_t documents_per_block = 1;  // consecutive pairs of a query that a thread block scores
  int64_t splits = 1;               // thread blocks that share a query's pairs
  int64_t num_blocks = 0;           // queries * row_tiles * splits
  int64_t query_tiles = 1;          // tiles of 32 tokens that a query has; their sums are added in order
  int64_t row_bytes = 0;
  bool resident = true;         // whether all columns of the query rows stay in shared memory
  bool several_chains = false;  // rows of more than 1,024 columns are summed chain by chain
  int32_t num_rows() const { return num_warps * kForwardWarpRows; }
};

// Returns the plan of a call. It depends only on the call's shape.
ForwardPlan PlanForward(const DeviceProblem& problem);

// Byte offsets of the parts of a thread block's shared memory.
struct ForwardShared {
  int32_t query_pitch;
  int32_t query;   // resident rows
  int32_t stages;  // the ring: chunks of document rows, and of query rows unless these are resident
  int32_t stage_bytes;
  int32_t maxima;   // [2][rows] floats
  int32_t factors;  // [rows] floats: weights times scales
  int32_t counts;   // [rows] int32: whether the query's token counts
  int32_t total;
};

constexpr ForwardShared ForwardSharedOf(int32_t num_rows, bool resident, int64_t row_bytes) {
  ForwardShared shared{};
  SharedArrays arrays(128);
  shared.query_pitch = static_cast<int32_t>((row_bytes + kStepBytes - 1) / kStepBytes * kStepBytes) + 16;
  shared.stage_bytes = (kForwardTokens + (resident ? 0 : num_rows)) * kForwardPitch;
  shared.query = arrays.TakeBytes(resident ? num_rows * shared.query_pitch : 0, 16);
  shared.stages = arrays.TakeBytes(kForwardStages * shared.stage_bytes, 16);
  shared.maxima = arrays.Take<float>(2 * num_rows);
  shared.factors = arrays.Take<float>(num_rows);
  shared.counts = arrays.Take<int32_t>(num_rows);
  shared.total = arrays.bytes();
  return shared;
}

// ForwardParams::partials has one of these bit patterns for a query tile without a sum: kNoQueryToken if no token of
// the query tile counts, kNoDocumentToken if no token of the document counts. They are NaNs that cannot be real sums:
// the only NaN that a GPU's arithmetic returns is 0x7fffffff.
inline constexpr uint32_t kNoQueryToken = 0xffc0de01;
inline constexpr uint32_t kNoDocumentToken = 0xffc0de02;

struct ForwardParams {
  DeviceProblem problem;
  ForwardPlan plan;
  float* scores;    // [pairs]
  int32_t* argmax;  // [pairs, queries' max_tokens] or null
  float* partials;  // [pairs, query_tiles] sums of query tiles, or kNoQueryToken, kNoDocumentToken; null if there is
                    // one query tile, whose sum is the score
  bool aligned;     // whether rows of both matrices begin at multiples of 16 bytes
};

// Launches the kernel for a type. kTokenScales says whether each document token has its own scale.
template <ScalarType kType, bool kTokenScales>
struct ForwardLauncher {
  static cudaError_t Launch(const ForwardParams& params, cudaStream_t stream);
};

// For each pair of a query and a document, adds up the partial sums of the query's tiles and writes the score.
cudaError_t LaunchAddPartials(const ForwardParams& params, cudaStream_t stream);

}  // namespace maxsim::library
