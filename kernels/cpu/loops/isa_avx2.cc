// AVX2 with FMA, which has 16 registers of eight floats.
#include <immintrin.h>

#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/kernel.inl.h"

namespace maxsim::cpu {
namespace {

constexpr size_t kRowMultiple = 12;

struct Avx2 {
  using Element = float;
  using Sum = __m256;
  using Step = __m256;
  using Total = __m256;
  static constexpr Feed kFeed = {.form = StepForm::kF32, .row_multiple = kRowMultiple};
  static constexpr size_t kLanes = 8;
  static constexpr size_t kPanelVectors = 4;
  static constexpr size_t kBlockSteps = 128;
  // Height of a tile for a panel of this many vectors, so that up to 12 of the 16 registers hold sums and the others
  // operands. At least eight sums are needed: a processor begins two FMAs per cycle, and each takes four cycles.
  static constexpr int Rows(int vectors) { return vectors == 4 ? 3 : vectors == 3 ? 4 : 6; }

  static Step Broadcast(const char* step) {
    float value;
    __builtin_memcpy(&value, step, sizeof(value));
    return _mm256_set1_ps(value);
  }
  static Step LoadStep(const uint32_t* steps) { return _mm256_load_ps(reinterpret_cast<const float*>(steps)); }
  static Sum MulAdd(Step a, Step b, Sum sum) { return _mm256_fmadd_ps(a, b, sum); }
  static Total Finish(Sum sum) { return sum; }
  static Total Add(Total a, Total b) { return _mm256_add_ps(a, b); }
  static Total Max(Total a, Total b) { return _mm256_max_ps(a, b); }
  static Sum Zero() { return _mm256_setzero_ps(); }
  static Total Load(const float* from) { return _mm256_loadu_ps(from); }
  static void Store(float* to, Total value) { _mm256_storeu_ps(to, value); }
};

// Integer columns are widened to 16 bits, and VPMADDWD adds two of their products exactly. VPMADDUBSW multiplies bytes,
// but would need two more instructions to fix signs and widen sums, so it would not be faster.
struct Avx2I16 {
  using Element = int32_t;
  using Sum = __m256i;
  using Step = __m256i;
  using Total = __m256i;
  static constexpr Feed kFeed = {.form = StepForm::kI16Pairs, .row_multiple = kRowMultiple};
  static constexpr size_t kLanes = Avx2::kLanes;
  static constexpr size_t kPanelVectors = Avx2::kPanelVectors;
  static constexpr size_t kBlockSteps = 128;
  static constexpr int Rows(int vectors) { return Avx2::Rows(vectors); }

  static Step Broadcast(const char* step) {
    int32_t value;
    __builtin_memcpy(&value, step, sizeof(value));
    return _mm256_set1_epi32(value);
  }
  static Step LoadStep(const uint32_t* steps) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(steps)); }
  static Sum MulAdd(Step a, Step b, Sum sum) { return _mm256_add_epi32(_mm256_madd_epi16(a, b), sum); }
  static Total Finish(Sum sum) { return sum; }
  static Total Add(Total a, Total b) { return _mm256_add_epi32(a, b); }
  static Total Max(Total a, Total b) { return _mm256_max_epi32(a, b); }
  static Sum Zero() { return _mm256_setzero_si256(); }
  static Total Load(const int32_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
  static void Store(int32_t* to, Total value) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value); }
};

}  // namespace

constexpr Isa kAvx2Isa = {.name = "avx2",
                          .lanes = Avx2::kLanes,
                          .panel_vectors = Avx2::kPanelVectors,
                          .f32 = MakeKernels<Avx2>(),
                          .bf16 = {},
                          .i8 = MakeKernels<Avx2I16>()};

}  // namespace maxsim::cpu
