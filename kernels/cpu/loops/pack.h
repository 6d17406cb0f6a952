// Packs query tokens into panels, the layout that the kernels of kernels/cpu/loops/isa.h read.
//
// Each query token takes one lane of a vector register; unused lanes are zero. A panel has up to `panel_vectors`
// vectors and is an array of steps, [num_steps, lanes of the panel]. Panels follow one another, and only the last one
// may have fewer vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/loops/isa.h"
#include "kernels/scalar_type.h"

namespace maxsim::cpu {

// Returns the columns of one step.
constexpr size_t StepColumns(StepForm form) {
  switch (form) {
    case StepForm::kF32:
      return 1;
    case StepForm::kBf16Pairs:
    case StepForm::kI16Pairs:
      return 2;
    case StepForm::kI8Quads:
    case StepForm::kUnsignedI8Quads:
      return 4;
  }
  return 1;
}

// Returns the number of steps of a row of `dim` columns.
constexpr size_t NumSteps(const Feed& feed, size_t dim) {
  const size_t num_columns = StepColumns(feed.form) * feed.step_multiple;
  return (dim + num_columns - 1) / num_columns * feed.step_multiple;
}

// Returns the form of query tokens that are multiplied with document rows of `form`.
constexpr StepForm QueryForm(StepForm form) { return form == StepForm::kUnsignedI8Quads ? StepForm::kI8Quads : form; }

struct PanelLayout {
  size_t lanes = 0;          // query tokens of one vector
  size_t panel_vectors = 0;  // vectors of a full panel
  size_t num_vectors = 0;    // vectors of all panels
  size_t num_steps = 0;      // steps of a query token

  size_t num_lanes() const { return num_vectors * lanes; }
  size_t size() const { return num_lanes() * num_steps; }  // in steps
};

// Returns the index, in an array of all panels, of step `step` of the query token in lane `lane` (counted over all
// panels).
size_t PanelIndex(const PanelLayout& layout, size_t lane, size_t step);

// Writes the steps of one query token into lane `lane`. `panels` is the array of all panels.
void PackQueryToken(const PanelLayout& layout, size_t lane, absl::Span<const uint32_t> steps, uint32_t* panels);

// Converts `count` stored rows of `dim` elements to steps: [count, num_steps]. Columns beyond `dim` become zero. `type`
// must be BF16 for kBf16Pairs, and I8 for the integer forms; kF32 takes any type.
void RowsToSteps(StepForm form, ScalarType type, const void* rows, size_t count, size_t dim, size_t num_steps,
                 uint32_t* steps);

}  // namespace maxsim::cpu
