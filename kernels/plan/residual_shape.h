// Tile sizes and shared memory of the kernels that score residual codes.
#pragma once

#include <cstdint>

#include "kernels/plan/rows.h"
#include "kernels/plan/shared_arrays.h"
#include "kernels/scalar_type.h"

namespace maxsim {

// A thread block has 32 tokens of a query, and each of its warps scores whole documents against them.
inline constexpr int32_t kCodedWarps = 4;
inline constexpr int32_t kCodedQueryRows = kQueryTileTokens;

// Columns that a warp decodes and multiplies at a time. The four lanes that share a token have 8 of them each.
inline constexpr int32_t kCodedStepColumns = 32;
inline constexpr int32_t kCodedLaneColumns = kCodedStepColumns / 4;

// Query rows stay in shared memory if they take at most this many bytes. Together with the table of weights this is
// less than 99 KB, which every device from compute capability 8.0 on has.
inline constexpr int64_t kMaxCodedQueryBytes = 64 * 1024;

// Number of thread blocks that keep every multiprocessor of today's devices busy, several on each.
inline constexpr int64_t kWantedCodedBlocks = 2048;

// Where the parts of a thread block's shared memory begin, in bytes: the table of weights lies at 0.
struct CodedShared {
  int32_t query_pitch;
  int32_t query;
  int32_t total;
};

// `table_bytes` is WeightTable::kBytes. Query rows have zeros after their columns, up to whole steps.
constexpr CodedShared CodedSharedOf(int32_t table_bytes, bool resident, int32_t dim, ScalarType type) {
  CodedShared shared{};
  SharedArrays arrays(128);
  arrays.TakeBytes(table_bytes, 128);
  // A warp reads 64 bytes of two rows at the same time. With a pitch of an odd multiple of 64 bytes, these are in
  // different banks.
  const int32_t steps = (dim + kCodedStepColumns - 1) / kCodedStepColumns;
  const int32_t parts = steps * kCodedStepColumns * static_cast<int32_t>(SizeOf(type)) / 64;
  shared.query_pitch = (parts % 2 == 0 ? parts + 1 : parts) * 64;
  shared.query = arrays.TakeBytes(resident ? kCodedQueryRows * shared.query_pitch : 0, 128);
  shared.total = arrays.bytes();
  return shared;
}

// Returns whether the query rows stay in shared memory.
constexpr bool CodedQueryStays(int32_t dim, ScalarType type) {
  const CodedShared shared = CodedSharedOf(/*table_bytes=*/0, /*resident=*/true, dim, type);
  return int64_t{kCodedQueryRows} * shared.query_pitch <= kMaxCodedQueryBytes;
}

}  // namespace maxsim
