#include "kernels/cpu/pack.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace maxsim::cpu {
namespace {

static_assert(std::endian::native == std::endian::little, "a step's first BF16 column is its lower half");

// Lanes of the panel that starts at `first_lane`.
size_t PanelLanes(const PanelLayout& layout, size_t first_lane) {
  return std::min(layout.panel_vectors * layout.lanes, layout.num_lanes() - first_lane);
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

void RowsToSteps(StepForm form, ScalarType type, const void* rows, size_t count, size_t dim, uint32_t* steps) {
  if (form == StepForm::kF32) {
    ConvertElements(type, rows, ScalarType::kF32, steps, count * dim);
    return;
  }
  if (dim % 2 == 0) {
    std::memcpy(steps, rows, count * dim * sizeof(uint16_t));
    return;
  }
  const size_t num_steps = NumSteps(form, dim);
  for (size_t row = 0; row < count; ++row) {
    uint32_t* const target = steps + row * num_steps;
    target[num_steps - 1] = 0;
    std::memcpy(target, static_cast<const char*>(rows) + row * dim * sizeof(uint16_t), dim * sizeof(uint16_t));
  }
}

}  // namespace maxsim::cpu
