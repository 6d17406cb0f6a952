#include "kernels/library/cuda/hopper/hopper_forward_kernel.cuh"

template struct maxsim::library::HopperForwardLauncher<maxsim::ScalarType::kI8>;
