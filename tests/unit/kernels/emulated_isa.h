// Has AVX-512 with VNNI and BF16, and AMX, in plain C++: lanes, panels, tiles and steps are the hardware's, so that
// every machine runs the backend contract on them. What this leaves untested is the few instructions of
// kernels/cpu/loops/isa_{avx512*,amx}.cc.
#pragma once

#include "kernels/cpu/loops/isa.h"

namespace maxsim::test {

extern const cpu::Isa kEmulatedAvx512Bf16Isa;  // kernels for FP32, BF16 pairs, VNNI
extern const cpu::Isa kEmulatedAmxIsa;         // kernels for FP32, and for BF16 and I8 in tiles

}  // namespace maxsim::test
