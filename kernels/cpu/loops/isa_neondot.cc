// NEON with dot products (FEAT_DotProd), which nearly all processors from Armv8.2 on have.
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/kernel.inl.h"
#include "kernels/cpu/loops/neon.inl.h"

namespace maxsim::cpu {
namespace {

struct NeonDot : NeonIntegers {
  using Sum = int32x4_t;
  static Sum Zero() { return vdupq_n_s32(0); }
  static Sum MulAdd(Step query, Step row, Sum sum) { return vdotq_s32(sum, query, row); }
  static Total Finish(Sum sum) { return sum; }
};

}  // namespace

constexpr Isa kNeonDotIsa = {.name = "neondot",
                             .lanes = Neon::kLanes,
                             .panel_vectors = Neon::kPanelVectors,
                             .f32 = MakeKernels<Neon>(),
                             .bf16 = {},
                             .i8 = MakeKernels<NeonDot>()};

}  // namespace maxsim::cpu
