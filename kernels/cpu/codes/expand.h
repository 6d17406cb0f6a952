// Codes of documents in the form that the kernels of the CPU backend multiply (kernels/cpu/loops/isa.h). Expanding
// costs a tenth of multiplying with 32 query tokens, so that the kernels for INT8 documents serve codes too.
//
// The value of a column, by planes and step form:
//
//   one plane, kI8Quads or kUnsignedI8Quads   the window that ends at its bit (kernels/codes/query_codes.h), minus 128
//   one plane, other forms                    -1 or 1, the level
//   two planes                                the level
//   four planes                               half of (the level - 1)
//
// which kUnsignedI8Quads adds 128 to, as it does for INT8 documents. With `raw` the inner product of a row with a query
// token in the same form, <Q, L> = ProductScale * raw + ProductOffset.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/codes/codes.h"
#include "kernels/codes/query_codes.h"
#include "kernels/cpu/loops/isa.h"

namespace maxsim::cpu {

// Turns rows `first_token` .. `first_token` + `count` - 1 of the first 1, 2 or 4 planes into steps, [count, num_steps].
// num_steps is NumSteps(feed, CodeColumns(dim)) of a feed of this form; the steps beyond the columns are those of
// zeros. `columns` is scratch of count * CodeColumns(dim) bytes.
void ExpandCodes(StepForm form, int planes, const CodesView& codes, int64_t first_token, size_t count, size_t num_steps,
                 int8_t* columns, uint32_t* steps);

// Writes a query token as the steps that ExpandCodes' rows are multiplied with. `steps` has `num_steps` elements.
void CodeQuerySteps(StepForm form, const QueryCodes& query, int32_t token, absl::Span<uint32_t> steps);

// Returns what raw products are multiplied by: 1 or 2.
int32_t ProductScale(StepForm form, int planes);

// Returns what is added to a token's raw products after that.
int32_t ProductOffset(StepForm form, const QueryCodes& query, int32_t token);

}  // namespace maxsim::cpu
