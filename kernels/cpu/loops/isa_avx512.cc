// Uses only AVX-512 F and BW, which every server processor with AVX-512 has.
#include "kernels/cpu/loops/avx512.inl.h"
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/kernel.inl.h"

namespace maxsim::cpu {
namespace {

struct Avx512I16 : Avx512Integers, Avx512Shape {
  static constexpr Feed kFeed = {.form = StepForm::kI16Pairs, .row_multiple = kRowMultiple};
  static Sum MulAdd(Step a, Step b, Sum sum) { return _mm512_add_epi32(_mm512_madd_epi16(a, b), sum); }
};

}  // namespace

constexpr Isa kAvx512Isa = {.name = "avx512",
                            .lanes = Avx512::kLanes,
                            .panel_vectors = Avx512::kPanelVectors,
                            .f32 = MakeKernels<Avx512>(),
                            .bf16 = {},
                            .i8 = MakeKernels<Avx512I16>()};

}  // namespace maxsim::cpu
