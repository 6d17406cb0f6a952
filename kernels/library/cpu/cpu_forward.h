// The forward pass on the CPU, with the loops of kernels/cpu on several threads.
#pragma once

#include <cstdint>

#include "kernels/cpu/loops/isa.h"
#include "kernels/library/cpu/row_decoder.h"
#include "kernels/library/problem/problem.h"

namespace maxsim::library {

// Implements maxsim_forward with the kernels of `isa`. The caller must have called CheckHostIndices. `argmax` may be
// null. If `decoder` is not null, it decodes the documents' rows, and the problem must have the type FP32.
Status CpuForward(const Problem& problem, const cpu::Isa& isa, float* scores, int32_t* argmax,
                  const RowDecoder* decoder = nullptr);

}  // namespace maxsim::library
