// Document rows in the form the kernels read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/pack.h"
#include "kernels/scalar_type.h"

namespace maxsim::cpu {

// The kernels of `isa` for floating-point documents of `type`.
const Kernels<float>& FloatKernels(const Isa& isa, ScalarType type);

// Rows to hand to a kernel at a time: a multiple of feed.row_multiple.
size_t RowsPerBlock(const Feed& feed, size_t num_steps);

// Whether rows are left where they are, for lack of anything to change: then a block may have feed.row_multiple - 1
// more rows than RowsPerBlock.
bool StaysInPlace(const Feed& feed, ScalarType type, size_t dim);

// Rows of the next block of a document that has `left` more rows: all of them, or RowsPerBlock. No block that stays in
// place has fewer rows than feed.row_multiple, unless the document has.
size_t BlockRows(const Feed& feed, bool in_place, size_t rows_per_block, size_t left);

// Turns `count` >= 1 stored rows into steps in `scratch`, which holds them rounded up to feed.row_multiple, the last
// one repeated; those that stay in place are copied only where they are fewer than that. Reads `count` rows and nothing
// beside them. Where the feed does not say otherwise, FP32 rows are copied all the same: one sequential copy into the
// cache is faster than tiles that each read several rows from memory (1000 documents of 300 tokens: 69 against 61
// GFLOP/s on one Zen 3 core).
RowBlock MakeRowBlock(const Feed& feed, ScalarType type, const void* rows, size_t count, size_t dim, uint32_t* scratch);

}  // namespace maxsim::cpu
