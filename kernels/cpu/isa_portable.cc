// Vectors of four floats through the compiler's own vector types: SSE2 on x86-64, NEON on AArch64.
#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernel.inl.h"

namespace maxsim::cpu {
namespace {

struct Portable {
  typedef float Sum __attribute__((vector_size(16)));
  using Step = Sum;
  static constexpr size_t kLanes = 4;
  static constexpr size_t kPanelVectors = 2;
  static constexpr size_t kBlockSteps = 128;
  static constexpr int Rows(int) { return 4; }

  static Step Broadcast(const char* step) {
    float value;
    __builtin_memcpy(&value, step, sizeof(value));
    return Step{value, value, value, value};
  }
  static Step LoadStep(const uint32_t* steps) {
    Step value;
    __builtin_memcpy(&value, steps, sizeof(value));
    return value;
  }
  static Sum MulAdd(Step a, Step b, Sum sum) { return a * b + sum; }
  static Sum Add(Sum a, Sum b) { return a + b; }
  static Sum Max(Sum a, Sum b) { return a > b ? a : b; }
  static Sum Zero() { return Sum{0, 0, 0, 0}; }
  static Sum Load(const float* from) {
    Sum value;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
  }
  static void Store(float* to, Sum value) { __builtin_memcpy(to, &value, sizeof(value)); }
};

}  // namespace

constexpr Isa kPortableIsa = {.name = "portable",
                              .lanes = Portable::kLanes,
                              .panel_vectors = Portable::kPanelVectors,
                              .row_multiple = 4,
                              .f32 = MakeKernels<Portable>(),
                              .bf16_pairs = {}};

}  // namespace maxsim::cpu
