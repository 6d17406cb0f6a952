// Packing of query tokens into panels, the layout that the kernels of kernels/cpu/isa.h read.
//
// Lanes (query tokens, padded with zero to whole vectors) are split into panels of up to `panel_vectors` vectors. A
// panel is [num_steps, its lanes] steps, row-major; panels follow one another. Only the last panel may be narrower, so
// a panel's place depends on the lanes before it alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/scalar_type.h"

namespace maxsim::cpu {

// How the columns of a token are presented to the kernels.
enum class StepForm {
  kF32,        // one FP32 column a step, widened from whatever is stored
  kBf16Pairs,  // two BF16 columns a step, the first in the lower half; an odd last column is paired with zero
};

constexpr size_t NumSteps(StepForm form, size_t dim) { return form == StepForm::kF32 ? dim : (dim + 1) / 2; }

struct PanelLayout {
  size_t lanes = 0;          // of one vector
  size_t panel_vectors = 0;  // of a full panel
  size_t num_vectors = 0;    // in all
  size_t num_steps = 0;

  size_t num_lanes() const { return num_vectors * lanes; }
  size_t size() const { return num_lanes() * num_steps; }  // in steps
};

// Where the step `step` of the query token in lane `lane` lives.
size_t PanelIndex(const PanelLayout& layout, size_t lane, size_t step);

// Writes one query token (its steps in order) into its lane.
void PackQueryToken(const PanelLayout& layout, size_t lane, absl::Span<const uint32_t> steps, uint32_t* panels);

// Turns `count` stored rows of `dim` elements into steps: [count, NumSteps(form, dim)]. kBf16Pairs takes BF16 only.
void RowsToSteps(StepForm form, ScalarType type, const void* rows, size_t count, size_t dim, uint32_t* steps);

}  // namespace maxsim::cpu
