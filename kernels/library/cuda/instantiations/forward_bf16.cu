#include "kernels/library/cuda/forward_kernel.cuh"

template struct maxsim::library::ForwardLauncher<maxsim::ScalarType::kBF16, false>;
template struct maxsim::library::ForwardLauncher<maxsim::ScalarType::kBF16, true>;
