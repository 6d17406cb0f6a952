// Expands codes of documents into the form that the CPU backend's kernels multiply (kernels/cpu/loops/isa.h), so that
// the kernels for INT8 documents also scan codes. Expanding rows takes a tenth of the time of multiplying them with 32
// query tokens.
//
// The value of a column, by planes and step form:
//
//   one plane, kI8Quads or kUnsignedI8Quads   the window that ends at its bit (kernels/codes/query_codes.h), minus 128
//   one plane, other forms                    -1 or 1, the level
//   two planes                                the level
//   four planes                               half of (the level - 1)
//
// kUnsignedI8Quads adds 128 to this value, as it does for INT8 documents. If `raw` is the inner product of a row and a
// query token in the same form, then <Q, L> = ProductScale * raw + ProductOffset.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/codes/codes.h"
#include "kernels/codes/query_codes.h"
#include "kernels/cpu/loops/isa.h"

namespace maxsim::cpu {

// Turns rows `first_token` .. `first_token` + `count` - 1 of the first 1, 2 or 4 planes into steps, [count, num_steps].
// num_steps is NumSteps(feed, CodeColumns(dim)) of a feed of this form; steps beyond the last column are filled as if
// the columns were 0. `columns` is scratch of count * CodeColumns(dim) bytes.
void ExpandCodes(StepForm form, int planes, const CodesView& codes, int64_t first_token, size_t count, size_t num_steps,
                 int8_t* columns, uint32_t* steps);

// Writes a query token as the steps that ExpandCodes' rows are multiplied with. `steps` has `num_steps` elements.
void CodeQuerySteps(StepForm form, const QueryCodes& query, int32_t token, absl::Span<uint32_t> steps);

// Returns the factor of raw products: 1 or 2.
int32_t ProductScale(StepForm form, int planes);

// Returns the number to add to a token's raw product after it has been multiplied by ProductScale.
int32_t ProductOffset(StepForm form, const QueryCodes& query, int32_t token);

}  // namespace maxsim::cpu
