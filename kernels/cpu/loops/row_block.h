// Cuts a document's rows (token vectors) into the blocks that kernels read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/pack.h"
#include "kernels/scalar_type.h"

namespace maxsim::cpu {

// Returns the kernels of `isa` for floating-point documents of `type`.
const Kernels<float>& FloatKernels(const Isa& isa, ScalarType type);

// Returns the usual number of rows of a block, a multiple of feed.row_multiple. A block that stays in place may have up
// to feed.row_multiple - 1 more.
size_t RowsPerBlock(const Feed& feed, size_t num_steps);

// Returns whether rows are multiplied where they are stored, without a copy, because they are stored in the kernel's
// form.
bool StaysInPlace(const Feed& feed, ScalarType type, size_t dim);

// Returns the number of rows of a document's next block, when `left` rows are left. A block that stays in place has at
// least feed.row_multiple rows, unless the whole document has fewer.
size_t BlockRows(const Feed& feed, bool in_place, size_t rows_per_block, size_t left);

// Returns `count` >= 1 stored rows as a block. Converts them to steps in `scratch`, which must have room for `count`
// rounded up to feed.row_multiple, and fills up with copies of the last row. If rows stay in place (StaysInPlace) and
// there are at least row_multiple, returns them where they are. FP32 rows are copied although they are stored as steps,
// because one sequential copy into the cache is faster than tiles that each read several rows from memory (69 against
// 61 GFLOP/s for 1000 documents of 300 tokens on one Zen 3 core).
RowBlock MakeRowBlock(const Feed& feed, ScalarType type, const void* rows, size_t count, size_t dim, uint32_t* scratch);

}  // namespace maxsim::cpu
