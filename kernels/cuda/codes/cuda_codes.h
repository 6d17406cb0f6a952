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
#include "kernels/codes/scan_executor.h"
#include "kernels/cuda/codes/common/scan_params.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_memory.h"

namespace maxsim::cuda {

// Immutable and thread-safe.
class CudaCodes final : public LoadedCodes {
 public:
  // Device pointers to the arrays of a CodesView, planes aligned to kPlaneAlignment. Not owned.
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

  // Copies the first 1, 2 or 4 planes of valid codes (ValidateCodes), with their factors, offsets, scales and bounds,
  // to `device`, which must outlive the result. Takes CodeArrayBytes of device memory. Returns INVALID_ARGUMENT if
  // `codes` has fewer planes; RESOURCE_EXHAUSTED, with the bytes wanted and the bytes free, if they do not fit;
  // UNAVAILABLE if the device is lost.
  static absl::StatusOr<std::unique_ptr<CudaCodes>> Upload(Device& device, const CodesView& codes, int planes);

  // Makes codes that do not own their memory. `keep_alive` owns it; if that is null, the caller must keep the memory
  // for as long as the codes are used. `device` must outlive the result.
  static std::unique_ptr<CudaCodes> Borrow(Device& device, const Arrays& arrays,
                                           std::shared_ptr<const void> keep_alive = nullptr) {
    std::unique_ptr<CudaCodes> made(new CudaCodes(device, arrays));
    made->keep_alive_ = std::move(keep_alive);
    return made;
  }

  Device& device() const { return device_; }
  const CodeShape& shape() const override { return arrays_.shape; }
  int planes() const override { return arrays_.planes; }
  int64_t num_documents() const override { return arrays_.num_documents; }
  bool has_bounds(int planes) const override {
    return arrays_.bounds[static_cast<size_t>(BoundIndex(planes))] != nullptr;
  }
  MemoryNeed memory() const override { return {.device_bytes = device_bytes_}; }

  // Returns the kernels' arguments for a scan of 1, 2 or 4 of the planes.
  CodeArrays ParamsFor(int planes) const;

 private:
  CudaCodes(Device& device, const Arrays& arrays) : device_(device), arrays_(arrays) {}

  static absl::StatusOr<std::unique_ptr<CudaCodes>> Copy(Device& device, const CodesView& codes, int planes);

  Device& device_;
  Arrays arrays_;
  std::array<DeviceBuffer, 9> owned_;
  size_t device_bytes_ = 0;
  std::shared_ptr<const void> keep_alive_;  // of borrowed memory
};

}  // namespace maxsim::cuda
