// The backward pass on the CPU.
#pragma once

#include "kernels/library/problem.h"

namespace maxsim::library {

// Does what maxsim_backward says. Indices were checked (CheckHostIndices), and gradients by ReadGradients. Entries of
// the argmax outside of their document are an error.
Status CpuBackward(const Problem& problem, const maxsim_gradients& gradients);

}  // namespace maxsim::library
