// Expands codes of documents into the form that the CPU backend's kernels for INT8 documents multiply
// (kernels/cpu/loops/isa.h). Expanding rows takes a tenth of the time of multiplying them with 32 query tokens.
//
// The value of a column, by planes and step form:
//
//   one plane, kI8Quads or kUnsignedI8Quads   the window that ends at its bit (kernels/codes/query_codes.h), minus 128
//   one plane, other forms                    -1 or 1, the level
//   two planes                                the level
//   four planes                               half of (the level - 1)
//
// kUnsignedI8Quads adds 128 to this value. If `raw` is the inner product of a row and a query token in these forms,
// then <Q, L> = ProductScale * raw + ProductOffset.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/codes/codes.h"
#include "kernels/codes/query_codes.h"
#include "kernels/cpu/loops/isa.h"

namespace maxsim::cpu {

// Expands the codes of tokens `first_token` .. `first_token` + `count` - 1, with the first 1, 2 or 4 planes, into
// `steps`: [count, num_steps]. num_steps is NumSteps(feed, CodeColumns(dim)) of a feed of this form; columns beyond the
// last one are filled as if they were 0. `columns` is scratch of count * CodeColumns(dim) bytes.
void ExpandCodes(StepForm form, int planes, const CodesView& codes, int64_t first_token, size_t count, size_t num_steps,
                 int8_t* columns, uint32_t* steps);

// Writes a query token in the form that is multiplied with rows from ExpandCodes. `steps` has `num_steps` elements.
void CodeQuerySteps(StepForm form, const QueryCodes& query, int32_t token, absl::Span<uint32_t> steps);

// Returns the factor, 1 or 2, by which raw products are multiplied (see the top of this file).
int32_t ProductScale(StepForm form, int planes);

// Returns the number that is added to a query token's raw products after they were multiplied by ProductScale.
int32_t ProductOffset(StepForm form, const QueryCodes& query, int32_t token);

}  // namespace maxsim::cpu
