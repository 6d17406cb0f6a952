// AVX2 with FMA: 16 registers of eight floats.
#include <immintrin.h>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/kernel.inl.h"

namespace maxsim::cpu {
namespace {

struct Avx2 {
  using Sum = __m256;
  using Step = __m256;
  static constexpr size_t kLanes = 8;
  static constexpr size_t kPanelVectors = 4;
  static constexpr size_t kBlockSteps = 128;
  // Twelve sums leave four registers for the operands; two FMAs a cycle with four cycles of latency need eight.
  static constexpr int Rows(int vectors) { return vectors == 4 ? 3 : vectors == 3 ? 4 : 6; }

  static Step Broadcast(const char* step) {
    float value;
    __builtin_memcpy(&value, step, sizeof(value));
    return _mm256_set1_ps(value);
  }
  static Step LoadStep(const uint32_t* steps) { return _mm256_load_ps(reinterpret_cast<const float*>(steps)); }
  static Sum MulAdd(Step a, Step b, Sum sum) { return _mm256_fmadd_ps(a, b, sum); }
  static Sum Add(Sum a, Sum b) { return _mm256_add_ps(a, b); }
  static Sum Max(Sum a, Sum b) { return _mm256_max_ps(a, b); }
  static Sum Zero() { return _mm256_setzero_ps(); }
  static Sum Load(const float* from) { return _mm256_loadu_ps(from); }
  static void Store(float* to, Sum value) { _mm256_storeu_ps(to, value); }
};

}  // namespace

constexpr Isa kAvx2Isa = {.name = "avx2",
                          .lanes = Avx2::kLanes,
                          .panel_vectors = Avx2::kPanelVectors,
                          .row_multiple = 12,
                          .f32 = MakeKernels<Avx2>(),
                          .bf16_pairs = {}};

}  // namespace maxsim::cpu
