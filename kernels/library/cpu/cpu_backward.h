// The backward pass on the CPU.
#pragma once

#include "kernels/library/cpu/row_decoder.h"
#include "kernels/library/problem/problem.h"

namespace maxsim::library {

// Implements maxsim_backward. The caller must have called CheckHostIndices and ReadGradients. Returns an error if an
// entry of the argmax points outside of its document. If `decoder` is not null, it decodes the documents' rows, and
// gradients.document_gradients must be null.
Status CpuBackward(const Problem& problem, const maxsim_gradients& gradients, const RowDecoder* decoder = nullptr);

}  // namespace maxsim::library
