// AVX-512 with VNNI and BF16 instructions. Multiplies BF16 documents without conversion, two columns per step. FP16 and
// FP32 documents use the FP32 kernels of AVX-512.
#include "kernels/cpu/loops/avx512.inl.h"
#include "kernels/cpu/loops/avx512vnni.inl.h"
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/kernel.inl.h"

namespace maxsim::cpu {
namespace {

struct Avx512Bf16 : Avx512 {
  using Step = __m512i;
  static constexpr size_t kBlockSteps = Avx512Bf16Shape::kBlockSteps;
  static constexpr Feed kFeed = Avx512Bf16Shape::kFeed;

  static Step Broadcast(const char* step) {
    int32_t value;
    __builtin_memcpy(&value, step, sizeof(value));
    return _mm512_set1_epi32(value);
  }
  static Step LoadStep(const uint32_t* steps) { return _mm512_load_si512(steps); }
  // Products are exact, and sums round to nearest even. Inputs and results below 2^-126 count as zero.
  static Sum MulAdd(Step a, Step b, Sum sum) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};

}  // namespace

constexpr Isa kAvx512Bf16Isa = {.name = "avx512bf16",
                                .lanes = Avx512::kLanes,
                                .panel_vectors = Avx512::kPanelVectors,
                                .f32 = MakeKernels<Avx512>(),
                                .bf16 = MakeKernels<Avx512Bf16>(),
                                .i8 = MakeKernels<Avx512Vnni>()};

}  // namespace maxsim::cpu
