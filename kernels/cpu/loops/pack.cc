#include "kernels/cpu/loops/pack.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace maxsim::cpu {
namespace {

static_assert(std::endian::native == std::endian::little, "a step's first column is its lowest part");

// Returns the number of lanes of the panel that starts at `first_lane`.
size_t PanelLanes(const PanelLayout& layout, size_t first_lane) {
  return std::min(layout.panel_vectors * layout.lanes, layout.num_lanes() - first_lane);
}

// Converts `count` I8 columns to T, and writes them to `steps`, by memcpy because `steps` has another type. Compilers
// vectorise the loop.
template <typename T>
void WidenI8(const void* columns, size_t count, uint32_t* steps) {
  const auto* const __restrict source = static_cast<const int8_t*>(columns);
  auto* const __restrict target = reinterpret_cast<char*>(steps);
  for (size_t idx = 0; idx < count; ++idx) {
    const auto value = static_cast<T>(source[idx]);
    std::memcpy(target + idx * sizeof(T), &value, sizeof(T));
  }
}

void MakeUnsigned(const uint8_t* __restrict columns, size_t count, uint8_t* __restrict target) {
  for (size_t idx = 0; idx < count; ++idx) target[idx] = static_cast<uint8_t>(columns[idx] ^ 0x80);
}

// Converts consecutive columns into consecutive steps.
void ConvertColumns(StepForm form, ScalarType type, const void* columns, size_t count, uint32_t* steps) {
  switch (form) {
    case StepForm::kF32:
      if (type == ScalarType::kI8) {
        return WidenI8<float>(columns, count, steps);
      }
      return ConvertElements(type, columns, ScalarType::kF32, steps, count);
    case StepForm::kI16Pairs:
      return WidenI8<int16_t>(columns, count, steps);
    case StepForm::kUnsignedI8Quads:
      return MakeUnsigned(static_cast<const uint8_t*>(columns), count, reinterpret_cast<uint8_t*>(steps));
    case StepForm::kBf16Pairs:
    case StepForm::kI8Quads:
      std::memcpy(steps, columns, count * SizeOf(type));
      return;
  }
}

}  // namespace

size_t PanelIndex(const PanelLayout& layout, size_t lane, size_t step) {
  const size_t full_panel = layout.panel_vectors * layout.lanes;
  const size_t first_lane = lane / full_panel * full_panel;
  return first_lane * layout.num_steps + step * PanelLanes(layout, first_lane) + (lane - first_lane);
}

void PackQueryToken(const PanelLayout& layout, size_t lane, absl::Span<const uint32_t> steps, uint32_t* panels) {
  const size_t full_panel = layout.panel_vectors * layout.lanes;
  const size_t stride = PanelLanes(layout, lane / full_panel * full_panel);
  uint32_t* target = panels + PanelIndex(layout, lane, 0);
  for (uint32_t step : steps) {
    *target = step;
    target += stride;
  }
}

void RowsToSteps(StepForm form, ScalarType type, const void* rows, size_t count, size_t dim, size_t num_steps,
                 uint32_t* steps) {
  if (dim == num_steps * StepColumns(form)) return ConvertColumns(form, type, rows, count * dim, steps);
  for (size_t row = 0; row < count; ++row) {
    uint32_t* const target = steps + row * num_steps;
    // The row may end within a step. Zeroes this step first, so that its columns beyond the row's end are zero.
    const size_t num_full = dim / StepColumns(form);
    std::fill(target + num_full, target + num_steps, 0);
    ConvertColumns(form, type, static_cast<const char*>(rows) + row * dim * SizeOf(type), dim, target);
  }
}

}  // namespace maxsim::cpu
