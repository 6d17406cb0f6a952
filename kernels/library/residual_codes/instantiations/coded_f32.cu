#include "kernels/library/residual_codes/coded_forward.cuh"

template struct maxsim::library::CodedLauncher<maxsim::ScalarType::kF32>;
