// Tile shapes of the AVX-512 instruction sets. Apart from the instructions, so that a machine without them can run the
// same tiles in tests (tests/unit/kernels/emulated_isa.h).
#pragma once

#include <cstddef>

namespace maxsim::cpu {

struct Avx512Shape {
  static constexpr size_t kLanes = 16;
  static constexpr size_t kPanelVectors = 4;
  static constexpr size_t kBlockSteps = 128;
  // 16 to 24 of the 32 registers hold sums: enough to hide the latency, and short enough tiles that a document's last
  // one wastes little.
  static constexpr int Rows(int vectors) { return vectors == 4 ? 6 : 8; }
  static constexpr size_t kRowMultiple = 24;
};

struct Avx512Bf16Shape : Avx512Shape {
  // 64 steps are 128 columns: the error bound of a block is the FP32 path's.
  static constexpr size_t kBlockSteps = 64;
};

}  // namespace maxsim::cpu
