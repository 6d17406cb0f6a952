// AVX-512 with VNNI and BF16, and AMX, in plain C++: the same lanes, panels, tiles and steps, so that every machine
// runs the backend contract on them. What it leaves untested is the few instructions of
// kernels/cpu/isa_{avx512*,amx}.cc.
#pragma once

#include "kernels/cpu/isa.h"

namespace maxsim::test {

extern const cpu::Isa kEmulatedAvx512Bf16Isa;  // FP32, BF16 pairs, VNNI
extern const cpu::Isa kEmulatedAmxIsa;         // FP32, BF16 and I8 in tiles

}  // namespace maxsim::test
