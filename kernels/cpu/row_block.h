// Document rows in the form the kernels read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/pack.h"
#include "kernels/scalar_type.h"

namespace maxsim::cpu {

// The step form that `isa` takes documents of `type` in.
StepForm FormFor(const Isa& isa, ScalarType type);

// The kernels of that form.
const Kernels& KernelsFor(const Isa& isa, StepForm form);

// Rows to hand to a kernel at a time: a multiple of isa.row_multiple.
size_t RowsPerBlock(const Isa& isa, size_t num_steps);

// Turns `count` >= 1 stored rows into steps in `scratch`, which holds them rounded up to isa.row_multiple, the last one
// repeated. Reads `count` rows and nothing beside them. Rows that are stored as steps already are copied all the same:
// one sequential copy into the cache is faster than tiles that each read several rows from memory (FP32, 1000 documents
// of 300 tokens: 69 against 61 GFLOP/s on one Zen 3 core).
RowBlock MakeRowBlock(const Isa& isa, StepForm form, ScalarType type, const void* rows, size_t count, size_t dim,
                      uint32_t* scratch);

}  // namespace maxsim::cpu
