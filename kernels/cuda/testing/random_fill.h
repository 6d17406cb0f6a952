// Random token values made on the device, for tests and benchmarks whose data would take long to make and to copy.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/scalar_type.h"

namespace maxsim::cuda {

// Fills `count` elements with values that are evenly distributed over [-scale, scale) and rounded to the type. I8
// elements are evenly distributed over -127 .. 127, whatever the scale. Each value depends only on `seed` and on its
// index.
cudaError_t FillRandom(ScalarType type, void* elements, int64_t count, uint64_t seed, float scale, cudaStream_t stream);

// Fills `count` scales of I8 documents with values between half of `largest` and `largest`. Each depends only on
// `seed` and on its index.
cudaError_t FillScales(float* scales, int64_t count, uint64_t seed, float largest, cudaStream_t stream);

}  // namespace maxsim::cuda
