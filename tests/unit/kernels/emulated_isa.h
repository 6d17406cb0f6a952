// Emulates AVX-512 with VNNI and BF16, and AMX, in plain C++, so that every machine can run the tests of the backend
// contract for these instruction sets. Lanes, panels, tiles and steps are as in the hardware. Only the few instructions
// in kernels/cpu/loops/isa_{avx512*,amx}.cc remain untested.
#pragma once

#include <vector>

#include "kernels/cpu/loops/isa.h"

namespace maxsim::test {

extern const cpu::Isa kEmulatedAvx512Bf16Isa;  // kernels for FP32, BF16 pairs, VNNI
extern const cpu::Isa kEmulatedAmxIsa;         // kernels for FP32, and for BF16 and I8 in tiles

// Returns the emulated instruction sets, except those that this machine has. The tests use the real instructions for
// those, which run ten times as fast.
std::vector<const cpu::Isa*> EmulatedIsas();

}  // namespace maxsim::test
