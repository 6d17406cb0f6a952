// The AVX-512 BF16 instruction set in plain C++: the same lanes, panels, tiles and steps, so that every machine runs
// the backend contract on them. What it leaves untested is the few intrinsics of kernels/cpu/isa_avx512*.cc.
#pragma once

#include "kernels/cpu/isa.h"

namespace maxsim::test {

extern const cpu::Isa kEmulatedAvx512Bf16Isa;

}  // namespace maxsim::test
