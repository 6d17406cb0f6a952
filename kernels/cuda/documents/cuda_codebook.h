// The codebook of documents of residual codes, in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/runtime/device_memory.h"
#include "kernels/residual_codes.h"
#include "kernels/scalar_type.h"

namespace maxsim::cuda {

// Immutable and thread-safe.
class CudaCodebook {
 public:
  // Returns the device memory that Upload takes.
  static size_t BytesNeeded(ScalarType type, int32_t dim, int64_t num_centroids);

  // Copies the codebook of documents of `type` to the current device, and waits for it. Returns RESOURCE_EXHAUSTED if
  // there is too little memory.
  static absl::StatusOr<std::unique_ptr<const CudaCodebook>> Upload(ScalarType type, int32_t dim,
                                                                    const ResidualCodebook& codebook);

  size_t bytes() const { return centroids_.bytes() + bucket_weights_.bytes(); }
  int64_t num_centroids() const { return num_centroids_; }
  // Returns F16 rows, [num_centroids], padded with zeros to DeviceRowBytes(kF16, dim) bytes each.
  const uint8_t* centroids() const { return centroids_.as<uint8_t>(); }
  const float* bucket_weights() const { return bucket_weights_.as<float>(); }

 private:
  CudaCodebook() = default;

  DeviceBuffer centroids_;
  DeviceBuffer bucket_weights_;
  int64_t num_centroids_ = 0;
};

}  // namespace maxsim::cuda
