// What the AVX-512 instruction sets share: 32 registers of sixteen floats.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/avx512_shape.h"

namespace maxsim::cpu {
namespace {

struct Avx512 : Avx512Shape {
  using Sum = __m512;
  using Step = __m512;

  static Step Broadcast(const char* step) {
    float value;
    __builtin_memcpy(&value, step, sizeof(value));
    return _mm512_set1_ps(value);
  }
  static Step LoadStep(const uint32_t* steps) { return _mm512_load_ps(steps); }
  static Sum MulAdd(Step a, Step b, Sum sum) { return _mm512_fmadd_ps(a, b, sum); }
  static Sum Add(Sum a, Sum b) { return _mm512_add_ps(a, b); }
  // With a full mask: the plain form trips GCC's -Wmaybe-uninitialized (GCC bug 105593).
  static Sum Max(Sum a, Sum b) { return _mm512_maskz_max_ps(0xffff, a, b); }
  static Sum Zero() { return _mm512_setzero_ps(); }
  static Sum Load(const float* from) { return _mm512_loadu_ps(from); }
  static void Store(float* to, Sum value) { _mm512_storeu_ps(to, value); }
};

}  // namespace
}  // namespace maxsim::cpu
