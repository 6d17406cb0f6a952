// NEON with multiplication of integer matrices (FEAT_I8MM), as in Neoverse V1, N2 and V2. One instruction (SMMLA)
// multiplies eight columns of two document tokens with those of two query tokens: 32 products instead of the 16 of
// SDOT.
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/kernel.inl.h"
#include "kernels/cpu/loops/neon.inl.h"

namespace maxsim::cpu {
namespace {

struct NeonI8mm : NeonIntegers {
  using Sum = int32x4_t;
  static constexpr Feed kFeed = {.form = StepForm::kI8Quads, .row_multiple = kNeonRowMultiple, .step_multiple = 2};
  static Total Finish(Sum sum) { return sum; }

  static int8x16_t LoadRows(const char* first, size_t row_bytes) {
    int8x8_t rows[2];
    __builtin_memcpy(&rows[0], first, sizeof(rows[0]));
    __builtin_memcpy(&rows[1], first + row_bytes, sizeof(rows[1]));
    return vcombine_s8(rows[0], rows[1]);
  }

  template <int kVectors, int kRows>
  [[gnu::always_inline]] static void MultiplyTile(const char* rows, size_t row_bytes, const uint32_t* panel,
                                                  size_t num_steps, Prefetcher<NeonI8mm>& prefetcher,
                                                  Sum (&sums)[kRows][kVectors]) {
    constexpr int kPairs = kRows / 2;
    static_assert(kRows % 2 == 0, "rows are multiplied in pairs");
    // Each vector has the sums of a pair of rows with two query tokens: two sums of the first row, then two of the
    // second. The last index is 0 for the query tokens in lanes 0 and 1, and 1 for those in lanes 2 and 3.
    int32x4_t squares[kPairs][kVectors][2];
#pragma GCC unroll 16
    for (int pair = 0; pair < kPairs; ++pair) {
#pragma GCC unroll 16
      for (int vector = 0; vector < kVectors; ++vector) {
        squares[pair][vector][0] = vdupq_n_s32(0);
        squares[pair][vector][1] = vdupq_n_s32(0);
      }
    }
    for (size_t step = 0; step < num_steps; step += 2) {
      if (step % Prefetcher<NeonI8mm>::kFetchSteps == 0) prefetcher.Fetch();
      int8x16_t row_pairs[kPairs];
#pragma GCC unroll 16
      for (int pair = 0; pair < kPairs; ++pair) {
        row_pairs[pair] = LoadRows(rows + 2 * pair * row_bytes + step * kStepBytes, row_bytes);
      }
#pragma GCC unroll 16
      for (int vector = 0; vector < kVectors; ++vector) {
        // Puts the two steps of each query token side by side.
        const uint32x4_t first = vld1q_u32(panel + vector * kLanes);
        const uint32x4_t second = vld1q_u32(panel + (kVectors + vector) * kLanes);
        const int8x16_t lower = vreinterpretq_s8_u32(vzip1q_u32(first, second));
        const int8x16_t upper = vreinterpretq_s8_u32(vzip2q_u32(first, second));
#pragma GCC unroll 16
        for (int pair = 0; pair < kPairs; ++pair) {
          squares[pair][vector][0] = vmmlaq_s32(squares[pair][vector][0], row_pairs[pair], lower);
          squares[pair][vector][1] = vmmlaq_s32(squares[pair][vector][1], row_pairs[pair], upper);
        }
      }
      panel += 2 * kVectors * kLanes;
    }
#pragma GCC unroll 16
    for (int pair = 0; pair < kPairs; ++pair) {
#pragma GCC unroll 16
      for (int vector = 0; vector < kVectors; ++vector) {
        const int64x2_t lower = vreinterpretq_s64_s32(squares[pair][vector][0]);
        const int64x2_t upper = vreinterpretq_s64_s32(squares[pair][vector][1]);
        sums[2 * pair][vector] = vreinterpretq_s32_s64(vzip1q_s64(lower, upper));
        sums[2 * pair + 1][vector] = vreinterpretq_s32_s64(vzip2q_s64(lower, upper));
      }
    }
  }
};

}  // namespace

constexpr Isa kNeonI8mmIsa = {.name = "neoni8mm",
                              .lanes = Neon::kLanes,
                              .panel_vectors = Neon::kPanelVectors,
                              .f32 = MakeKernels<Neon>(),
                              .bf16 = {},
                              .i8 = MakeKernels<NeonI8mm>()};

}  // namespace maxsim::cpu
