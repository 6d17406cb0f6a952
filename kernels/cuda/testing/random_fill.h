// Random token values made on the device, for tests and benchmarks whose data would take long to make and to copy.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/scalar_type.h"

namespace maxsim::cuda {

// Fills `count` elements with values spread evenly over [-scale, scale), each a function of `seed` and its index alone,
// rounded to the type (F16, BF16 or F32).
cudaError_t FillRandom(ScalarType type, void* elements, int64_t count, uint64_t seed, float scale, cudaStream_t stream);

// Sets offsets[i] = i * tokens_per_document for i = 0 .. num_documents.
cudaError_t FillOffsets(int64_t* offsets, int64_t num_documents, int64_t tokens_per_document, cudaStream_t stream);

}  // namespace maxsim::cuda
