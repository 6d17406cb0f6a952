#include "kernels/cpu/row_block.h"

#include <algorithm>
#include <cstring>

namespace maxsim::cpu {
namespace {

// Rows of a block stay in the caches while every panel of the queries passes over them.
constexpr size_t kBlockBytes = 32 * 1024;

}  // namespace

StepForm FormFor(const Isa& isa, ScalarType type) {
  return type == ScalarType::kBF16 && isa.bf16_pairs.update_maxima != nullptr ? StepForm::kBf16Pairs : StepForm::kF32;
}

const Kernels& KernelsFor(const Isa& isa, StepForm form) {
  return form == StepForm::kBf16Pairs ? isa.bf16_pairs : isa.f32;
}

size_t RowsPerBlock(const Isa& isa, size_t num_steps) {
  const size_t multiples = kBlockBytes / (num_steps * sizeof(uint32_t) * isa.row_multiple);
  return isa.row_multiple * std::max<size_t>(multiples, 1);
}

RowBlock MakeRowBlock(const Isa& isa, StepForm form, ScalarType type, const void* rows, size_t count, size_t dim,
                      uint32_t* scratch) {
  const size_t num_steps = NumSteps(form, dim);
  const bool stored_as_steps = form == StepForm::kF32 ? type == ScalarType::kF32 : dim % 2 == 0;
  const size_t tail = count % isa.row_multiple;
  if (stored_as_steps && tail == 0) return {rows, count, num_steps};

  RowsToSteps(form, type, rows, count, dim, scratch);
  if (tail != 0) {
    const uint32_t* const last = scratch + (count - 1) * num_steps;
    for (size_t row = count; row < count + isa.row_multiple - tail; ++row) {
      std::memcpy(scratch + row * num_steps, last, num_steps * sizeof(uint32_t));
    }
  }
  return {scratch, count, num_steps};
}

}  // namespace maxsim::cpu
