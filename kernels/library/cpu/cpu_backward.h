// The backward pass on the CPU.
#pragma once

#include "kernels/library/cpu/row_decoder.h"
#include "kernels/library/problem/problem.h"

namespace maxsim::library {

// Does what maxsim_backward says. Indices were checked (CheckHostIndices), and gradients by ReadGradients. Entries of
// the argmax outside of their document are an error. With a decoder the rows of documents are what it gives, and they
// have no gradients.
Status CpuBackward(const Problem& problem, const maxsim_gradients& gradients, const RowDecoder* decoder = nullptr);

}  // namespace maxsim::library
