#include "kernels/cpu/loops/row_block.h"

#include <algorithm>
#include <cstring>

namespace maxsim::cpu {
namespace {

// The size of a block of rows. Together with the 16 KiB panel of a 32-token query, it fits the first-level cache. On
// Zen 3, 8 to 24 KiB are equally fast, and 32 KiB is a few percent slower.
constexpr size_t kBlockBytes = 12 * 1024;

}  // namespace

const Kernels<float>& FloatKernels(const Isa& isa, ScalarType type) {
  return type == ScalarType::kBF16 && isa.bf16.update_maxima != nullptr ? isa.bf16 : isa.f32;
}

size_t RowsPerBlock(const Feed& feed, size_t num_steps) {
  const size_t multiples = kBlockBytes / (num_steps * sizeof(uint32_t) * feed.row_multiple);
  return feed.row_multiple * std::max<size_t>(multiples, 1);
}

bool StaysInPlace(const Feed& feed, ScalarType type, size_t dim) {
  const bool stored_as_steps = (feed.form == StepForm::kBf16Pairs && type == ScalarType::kBF16) ||
                               (feed.form == StepForm::kI8Quads && type == ScalarType::kI8);
  return feed.in_place && stored_as_steps && dim == NumSteps(feed, dim) * StepColumns(feed.form);
}

size_t BlockRows(const Feed& feed, bool in_place, size_t rows_per_block, size_t left) {
  return left < rows_per_block + (in_place ? feed.row_multiple : 0) ? left : rows_per_block;
}

RowBlock MakeRowBlock(const Feed& feed, ScalarType type, const void* rows, size_t count, size_t dim,
                      uint32_t* scratch) {
  const size_t num_steps = NumSteps(feed, dim);
  if (count >= feed.row_multiple && StaysInPlace(feed, type, dim)) {
    return {.rows = rows, .num_rows = count, .num_steps = num_steps};
  }
  RowsToSteps(feed.form, type, rows, count, dim, num_steps, scratch);
  const uint32_t* const last = scratch + (count - 1) * num_steps;
  for (size_t row = count; row % feed.row_multiple != 0; ++row) {
    std::memcpy(scratch + row * num_steps, last, num_steps * sizeof(uint32_t));
  }
  return {.rows = scratch, .num_rows = count, .num_steps = num_steps};
}

}  // namespace maxsim::cpu
