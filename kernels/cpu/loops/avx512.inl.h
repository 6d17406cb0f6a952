// Code that the AVX-512 instruction sets share. They have 32 registers of sixteen floats or integers.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/loops/avx512_shape.h"

namespace maxsim::cpu {
namespace {

struct Avx512 : Avx512Shape {
  using Element = float;
  using Sum = __m512;
  using Step = __m512;
  using Total = __m512;

  static Step Broadcast(const char* step) {
    float value;
    __builtin_memcpy(&value, step, sizeof(value));
    return _mm512_set1_ps(value);
  }
  static Step LoadStep(const uint32_t* steps) { return _mm512_load_ps(steps); }
  static Sum MulAdd(Step a, Step b, Sum sum) { return _mm512_fmadd_ps(a, b, sum); }
  static Total Finish(Sum sum) { return sum; }
  static Total Add(Total a, Total b) { return _mm512_add_ps(a, b); }
  // The full mask takes all lanes; the form without a mask trips GCC's -Wmaybe-uninitialized (GCC bug 105593).
  static Total Max(Total a, Total b) { return _mm512_maskz_max_ps(0xffff, a, b); }
  static Sum Zero() { return _mm512_setzero_ps(); }
  static Total Load(const float* from) { return _mm512_loadu_ps(from); }
  static void Store(float* to, Total value) { _mm512_storeu_ps(to, value); }
};

// The integer operations that all AVX-512 instruction sets share. A derived struct must add MulAdd and a shape.
struct Avx512Integers {
  using Element = int32_t;
  using Sum = __m512i;
  using Step = __m512i;
  using Total = __m512i;

  static Step Broadcast(const char* step) {
    int32_t value;
    __builtin_memcpy(&value, step, sizeof(value));
    return _mm512_set1_epi32(value);
  }
  static Step LoadStep(const uint32_t* steps) { return _mm512_load_si512(steps); }
  static Total Finish(Sum sum) { return sum; }
  static Total Add(Total a, Total b) { return _mm512_add_epi32(a, b); }
  // The full mask takes all lanes; the form without a mask trips GCC's -Wmaybe-uninitialized (GCC bug 105593).
  static Total Max(Total a, Total b) { return _mm512_maskz_max_epi32(0xffff, a, b); }
  static Sum Zero() { return _mm512_setzero_si512(); }
  static Total Load(const int32_t* from) { return _mm512_loadu_si512(from); }
  static void Store(int32_t* to, Total value) { _mm512_storeu_si512(to, value); }
};

}  // namespace
}  // namespace maxsim::cpu
