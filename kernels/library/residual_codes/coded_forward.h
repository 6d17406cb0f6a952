// The kernels over residual codes: their parameters, their shared memory and their launches.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/library/cuda/device_problem.h"
#include "kernels/library/include/maxsim/residual_codes.h"
#include "kernels/plan/shared_arrays.h"
#include "kernels/scalar_type.h"

namespace maxsim::library {

// A thread block has 32 tokens of a query, and each of its warps scores whole documents against them.
inline constexpr int32_t kCodedWarps = 4;
inline constexpr int32_t kCodedQueryRows = 32;

// Columns that a warp decodes and multiplies at a time. The four lanes that share a token have 8 of them each.
inline constexpr int32_t kCodedStepColumns = 32;
inline constexpr int32_t kCodedLaneColumns = kCodedStepColumns / 4;

// Query rows stay in shared memory as long as they take no more than this: with the table of weights it is less than
// the 99 KB that every device from compute capability 8.0 on has.
inline constexpr int64_t kMaxCodedQueryBytes = 64 * 1024;

// How a call is cut into thread blocks.
struct CodedPlan {
  int64_t query_tiles = 1;          // of 32 tokens each, whose sums are added in order
  int64_t documents_per_block = 1;  // consecutive pairs of a query
  int64_t splits = 1;               // thread blocks that share a query tile's pairs
  int64_t num_blocks = 0;           // queries * query_tiles * splits
  bool resident = true;             // whether the query rows stay in shared memory
};

// Where the parts of a thread block's shared memory begin, in bytes: the table of weights lies at 0.
struct CodedShared {
  int32_t query_pitch;
  int32_t query;
  int32_t total;
};

// `table_bytes` is WeightTable::kBytes. Query rows have zeros behind their columns, up to whole steps.
constexpr CodedShared CodedSharedOf(int32_t table_bytes, bool resident, int32_t dim, ScalarType type) {
  CodedShared shared{};
  SharedArrays arrays(128);
  arrays.TakeBytes(table_bytes, 128);
  // Rows whose pitch is an odd multiple of 64 bytes do not meet in a bank where two rows' 64 bytes are read at once.
  const int32_t steps = (dim + kCodedStepColumns - 1) / kCodedStepColumns;
  const int32_t parts = steps * kCodedStepColumns * static_cast<int32_t>(SizeOf(type)) / 64;
  shared.query_pitch = (parts % 2 == 0 ? parts + 1 : parts) * 64;
  shared.query = arrays.TakeBytes(resident ? kCodedQueryRows * shared.query_pitch : 0, 128);
  shared.total = arrays.bytes();
  return shared;
}

struct CodedParams {
  DeviceProblem problem;  // its documents have no rows
  maxsim_residual_codes codes;
  CodedPlan plan;
  int64_t row_bytes;         // of queries and centroids
  int64_t packed_row_bytes;  // of residuals
  float* scores;             // [pairs]
  int32_t* argmax;           // [pairs, queries' max_tokens] or null
  float* partials;           // [pairs, query_tiles] as in ForwardParams, or null where there is one tile
  bool aligned;  // whether 8 columns of queries and centroids lie at multiples of 16 bytes, and their codes at
                 // multiples of nbits bytes
};

// Launches the kernel for a type of queries, and a number of bits of 1, 2, 4 or 8.
template <ScalarType kType>
struct CodedLauncher {
  static cudaError_t Launch(const CodedParams& params, cudaStream_t stream);
};

struct CodedGradientParams {
  DeviceProblem problem;
  maxsim_residual_codes codes;
  int64_t packed_row_bytes;
  const int32_t* argmax;         // [pairs, queries' max_tokens]
  const float* score_gradients;  // [pairs]
  void* query_gradients;         // [queries' num_rows, dim] or null
  float* weight_gradients;       // [queries' num_rows] or null
};

// Writes the gradients that are not null.
cudaError_t LaunchCodedGradients(const CodedGradientParams& params, cudaStream_t stream);

}  // namespace maxsim::library
