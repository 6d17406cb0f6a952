// Tile shapes of the AVX-512 instruction sets and of AMX. They are in a file without such instructions, so that tests
// can emulate these tiles on any machine (tests/unit/kernels/emulated_isa.h).
#pragma once

#include <cstddef>

#include "kernels/cpu/loops/isa.h"

namespace maxsim::cpu {

struct Avx512Shape {
  static constexpr size_t kLanes = 16;
  static constexpr size_t kPanelVectors = 4;
  static constexpr size_t kBlockSteps = 128;
  // Height of a tile for a panel of this many vectors. The tile takes at most 24 of the 32 registers for sums: enough
  // to hide the latency of a multiplication, but few enough rows that a document's last, partly filled tile wastes
  // little.
  static constexpr int Rows(int vectors) { return vectors == 4 ? 6 : 8; }
  static constexpr size_t kRowMultiple = 24;
  static constexpr Feed kFeed = {.form = StepForm::kF32, .row_multiple = kRowMultiple};
};

struct Avx512Bf16Shape : Avx512Shape {
  // 64 steps are 128 columns, so a block has the same error bound as in FP32.
  static constexpr size_t kBlockSteps = 64;
  static constexpr Feed kFeed = {.form = StepForm::kBf16Pairs, .row_multiple = kRowMultiple};
};

struct Avx512VnniShape : Avx512Shape {
  static constexpr Feed kFeed = {.form = StepForm::kUnsignedI8Quads, .row_multiple = kRowMultiple};
};

// An AMX tile has sixteen rows of sixteen steps.
struct AmxBf16Shape {
  static constexpr Feed kFeed = {
      .form = StepForm::kBf16Pairs, .row_multiple = 16, .step_multiple = 16, .in_place = true};
};

struct AmxI8Shape {
  static constexpr Feed kFeed = {.form = StepForm::kI8Quads, .row_multiple = 16, .step_multiple = 16, .in_place = true};
};

}  // namespace maxsim::cpu
