// Code that the instruction sets of 64-bit Arm share. They have 32 registers of four floats or integers.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/loops/isa.h"

namespace maxsim::cpu {
namespace {

// All heights of tiles (2, 3, 4, 6 and 8 rows) divide it.
constexpr size_t kNeonRowMultiple = 24;

struct Neon {
  using Element = float;
  using Sum = float32x4_t;
  using Step = float32x4_t;
  using Total = float32x4_t;
  static constexpr Feed kFeed = {.form = StepForm::kF32, .row_multiple = kNeonRowMultiple};
  static constexpr size_t kLanes = 4;
  static constexpr size_t kPanelVectors = 4;
  static constexpr size_t kBlockSteps = 128;
  // Height of a tile for a panel of this many vectors, so that 16 or 18 of the 32 registers hold sums (8 with one
  // vector). The widest processors begin four multiply-adds per cycle, and each takes four cycles, so 16 sums keep them
  // busy. With 24 sums, GCC 12 would keep some in memory.
  static constexpr int Rows(int vectors) { return vectors == 4 ? 4 : vectors == 3 ? 6 : 8; }

  static Step Broadcast(const char* step) {
    float value;
    __builtin_memcpy(&value, step, sizeof(value));
    return vdupq_n_f32(value);
  }
  static Step LoadStep(const uint32_t* steps) { return vreinterpretq_f32_u32(vld1q_u32(steps)); }
  static Sum MulAdd(Step a, Step b, Sum sum) { return vfmaq_f32(sum, a, b); }
  static Total Finish(Sum sum) { return sum; }
  static Total Add(Total a, Total b) { return vaddq_f32(a, b); }
  static Total Max(Total a, Total b) { return vmaxq_f32(a, b); }
  static Sum Zero() { return vdupq_n_f32(0); }
  static Total Load(const float* from) { return vld1q_f32(from); }
  static void Store(float* to, Total value) { vst1q_f32(to, value); }
};

// The integer operations that these instruction sets share. A step has four I8 columns. A derived struct must add Sum,
// Zero, MulAdd and Finish.
struct NeonIntegers {
  using Element = int32_t;
  using Step = int8x16_t;
  using Total = int32x4_t;
  static constexpr Feed kFeed = {.form = StepForm::kI8Quads, .row_multiple = kNeonRowMultiple};
  static constexpr size_t kLanes = Neon::kLanes;
  static constexpr size_t kPanelVectors = Neon::kPanelVectors;
  static constexpr size_t kBlockSteps = 128;
  static constexpr int Rows(int vectors) { return Neon::Rows(vectors); }

  static Step Broadcast(const char* step) {
    int32_t value;
    __builtin_memcpy(&value, step, sizeof(value));
    return vreinterpretq_s8_s32(vdupq_n_s32(value));
  }
  static Step LoadStep(const uint32_t* steps) { return vreinterpretq_s8_u32(vld1q_u32(steps)); }
  static Total Add(Total a, Total b) { return vaddq_s32(a, b); }
  static Total Max(Total a, Total b) { return vmaxq_s32(a, b); }
  static Total Load(const int32_t* from) { return vld1q_s32(from); }
  static void Store(int32_t* to, Total value) { vst1q_s32(to, value); }
};

}  // namespace
}  // namespace maxsim::cpu
