// Codes of documents in device memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "kernels/codes/codes.h"
#include "kernels/cuda/codes/scan_params.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_memory.h"

namespace maxsim::cuda {

// Immutable and thread-safe.
class CudaCodes {
 public:
  // The arrays of a CodesView in device memory that somebody else owns.
  struct Arrays {
    CodeShape shape;
    int planes = 1;
    int64_t num_documents = 0;
    const uint8_t* plane0 = nullptr;
    const uint8_t* plane1 = nullptr;
    const uint8_t* planes23 = nullptr;
    const uint8_t* factors = nullptr;
    const int64_t* offsets = nullptr;
    const float* scales = nullptr;
    std::array<const CodeBound*, 3> bounds{};
  };

  // Copies the first 1, 2 or 4 planes of valid codes (ValidateCodes) to `device`, which must outlive the result, with
  // their factors, offsets, scales and bounds. RESOURCE_EXHAUSTED names the memory that is not there.
  static absl::StatusOr<std::unique_ptr<CudaCodes>> Upload(const Device& device, const CodesView& codes, int planes);

  // Makes codes in memory that the caller keeps as long as they are in use.
  static std::unique_ptr<CudaCodes> Borrow(const Device& device, const Arrays& arrays) {
    return std::unique_ptr<CudaCodes>(new CudaCodes(device, arrays));
  }

  const Device& device() const { return device_; }
  const CodeShape& shape() const { return arrays_.shape; }
  int planes() const { return arrays_.planes; }
  int64_t num_documents() const { return arrays_.num_documents; }
  bool has_bounds(int planes) const { return arrays_.bounds[static_cast<size_t>(BoundIndex(planes))] != nullptr; }
  // Returns the bytes of device memory that this object owns.
  size_t device_bytes() const { return device_bytes_; }

  // Returns what a scan of 1, 2 or 4 of the planes is told.
  CodeArrays ParamsFor(int planes) const;

 private:
  CudaCodes(const Device& device, const Arrays& arrays) : device_(device), arrays_(arrays) {}

  const Device& device_;
  Arrays arrays_;
  std::array<DeviceBuffer, 9> owned_;
  size_t device_bytes_ = 0;
};

}  // namespace maxsim::cuda
