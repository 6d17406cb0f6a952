#include "kernels/cpu/row_block.h"

#include <algorithm>
#include <cstring>

namespace maxsim::cpu {
namespace {

// Rows of a block and the 16 KiB panel of a 32-token query fill the first-level cache. 8 to 24 KiB were equally fast on
// Zen 3, 32 KiB a few percent slower.
constexpr size_t kBlockBytes = 12 * 1024;

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
  RowsToSteps(form, type, rows, count, dim, scratch);
  const uint32_t* const last = scratch + (count - 1) * num_steps;
  for (size_t row = count; row % isa.row_multiple != 0; ++row) {
    std::memcpy(scratch + row * num_steps, last, num_steps * sizeof(uint32_t));
  }
  return {scratch, count, num_steps};
}

}  // namespace maxsim::cpu
