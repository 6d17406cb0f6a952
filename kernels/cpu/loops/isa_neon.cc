// NEON as every 64-bit Arm processor has it.
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/kernel.inl.h"
#include "kernels/cpu/loops/neon.inl.h"

namespace maxsim::cpu {
namespace {

// The product of two columns fits 16 bits. SMULL computes the products of two query tokens, and SADALP adds them in
// pairs to the sums. A processor can do both at once, in different units; multiply-adds (SMLAL) would all need the same
// unit.
struct NeonI8 : NeonIntegers {
  // Two partial sums for each query token: lanes 0 and 1 in `lower`, lanes 2 and 3 in `upper`.
  struct Sum {
    int32x4_t lower;
    int32x4_t upper;
  };
  // A sum takes two registers, so tiles are about half as high as in FP32.
  static constexpr int Rows(int vectors) { return vectors == 4 ? 2 : vectors == 3 ? 3 : vectors == 2 ? 4 : 6; }

  static Sum Zero() { return {vdupq_n_s32(0), vdupq_n_s32(0)}; }
  static Sum MulAdd(Step query, Step row, Sum sum) {
    return {vpadalq_s16(sum.lower, vmull_s8(vget_low_s8(query), vget_low_s8(row))),
            vpadalq_s16(sum.upper, vmull_high_s8(query, row))};
  }
  static Total Finish(Sum sum) { return vpaddq_s32(sum.lower, sum.upper); }
};

}  // namespace

constexpr Isa kNeonIsa = {.name = "neon",
                          .lanes = Neon::kLanes,
                          .panel_vectors = Neon::kPanelVectors,
                          .f32 = MakeKernels<Neon>(),
                          .bf16 = {},
                          .i8 = MakeKernels<NeonI8>()};

}  // namespace maxsim::cpu
