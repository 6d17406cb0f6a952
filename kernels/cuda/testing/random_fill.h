// Random token values made on the device, for tests and benchmarks whose data would take long to make and to copy.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/scalar_type.h"

namespace maxsim::cuda {

// Fills `count` elements with values spread evenly over [-scale, scale), each a function of `seed` and its index alone,
// rounded to the type; elements of I8 over -127 .. 127, whatever the scale.
cudaError_t FillRandom(ScalarType type, void* elements, int64_t count, uint64_t seed, float scale, cudaStream_t stream);

// Fills `count` scales of I8 documents: between half of `largest` and `largest`, functions of `seed` and their index.
cudaError_t FillScales(float* scales, int64_t count, uint64_t seed, float largest, cudaStream_t stream);

}  // namespace maxsim::cuda
