// The portable instruction set uses the compiler's vector types of four floats, which become SSE2 on x86-64 and NEON on
// AArch64.
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/kernel.inl.h"

namespace maxsim::cpu {
namespace {

struct Portable {
  typedef float Sum __attribute__((vector_size(16)));
  using Element = float;
  using Step = Sum;
  using Total = Sum;
  static constexpr Feed kFeed = {.form = StepForm::kF32, .row_multiple = 4};
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
  static Total Finish(Sum sum) { return sum; }
  static Total Add(Total a, Total b) { return a + b; }
  static Total Max(Total a, Total b) { return a > b ? a : b; }
  static Sum Zero() { return Sum{0, 0, 0, 0}; }
  static Total Load(const float* from) {
    Total value;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
  }
  static void Store(float* to, Total value) { __builtin_memcpy(to, &value, sizeof(value)); }
};

// Multiplies integer columns as floats, which every machine supports. The sum of a column block is at most 512 x 127^2,
// below 2^24, so no addition rounds.
struct PortableIntegers : Portable {
  typedef int32_t Total __attribute__((vector_size(16)));
  using Element = int32_t;
  static constexpr size_t kBlockSteps = 512;

  static Total Finish(Sum sum) { return __builtin_convertvector(sum, Total); }
  static Total Add(Total a, Total b) { return a + b; }
  static Total Max(Total a, Total b) { return a > b ? a : b; }
  static Total Load(const int32_t* from) {
    Total value;
    __builtin_memcpy(&value, from, sizeof(value));
    return value;
  }
  static void Store(int32_t* to, Total value) { __builtin_memcpy(to, &value, sizeof(value)); }
};

}  // namespace

constexpr Isa kPortableIsa = {.name = "portable",
                              .lanes = Portable::kLanes,
                              .panel_vectors = Portable::kPanelVectors,
                              .f32 = MakeKernels<Portable>(),
                              .bf16 = {},
                              .i8 = MakeKernels<PortableIntegers>()};

}  // namespace maxsim::cpu
