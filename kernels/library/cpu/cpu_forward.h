// The forward pass on the CPU: the loops of kernels/cpu over the pairs of a call, on several threads.
#pragma once

#include <cstdint>

#include "kernels/cpu/loops/isa.h"
#include "kernels/library/cpu/row_decoder.h"
#include "kernels/library/problem/problem.h"

namespace maxsim::library {

// Does what maxsim_forward says, with the kernels of `isa`. The caller has checked indices (CheckHostIndices). `argmax`
// may be null. If `decoder` is not null, it decodes the rows of documents, and the problem must have the type FP32.
Status CpuForward(const Problem& problem, const cpu::Isa& isa, float* scores, int32_t* argmax,
                  const RowDecoder* decoder = nullptr);

}  // namespace maxsim::library
