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

// The rows at `rows` as a block: in place where they are stored in the kernels' form and fill whole tiles, otherwise
// turned into steps in `scratch`, which holds the rows rounded up to isa.row_multiple. Reads `count` rows and nothing
// beside them.
RowBlock MakeRowBlock(const Isa& isa, StepForm form, ScalarType type, const void* rows, size_t count, size_t dim,
                      uint32_t* scratch);

}  // namespace maxsim::cpu
