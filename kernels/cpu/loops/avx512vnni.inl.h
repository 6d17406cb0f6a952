// Multiplies integer columns with VNNI, which adds four products of an unsigned and a signed byte in each lane, without
// saturation.
#pragma once

#include "kernels/cpu/loops/avx512.inl.h"

namespace maxsim::cpu {
namespace {

struct Avx512Vnni : Avx512Integers, Avx512VnniShape {
  static Sum MulAdd(Step query, Step row, Sum sum) { return _mm512_dpbusd_epi32(sum, row, query); }
};

}  // namespace
}  // namespace maxsim::cpu
