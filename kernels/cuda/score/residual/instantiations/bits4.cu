#include "kernels/cuda/score/residual/launcher.cuh"

template struct maxsim::cuda::ResidualKernelLauncher<4>;
