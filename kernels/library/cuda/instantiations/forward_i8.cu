#include "kernels/library/cuda/forward_kernel.cuh"

template struct maxsim::library::ForwardLauncher<maxsim::ScalarType::kI8, false>;
template struct maxsim::library::ForwardLauncher<maxsim::ScalarType::kI8, true>;
