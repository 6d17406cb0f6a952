// Codes in device memory to which more codes can be appended (AppendableCodes, kernels/codes/appendable_codes.h).
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/appended_length.h"
#include "kernels/codes/appendable_codes.h"
#include "kernels/cuda/runtime/append_copier.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/device_memory.h"

namespace maxsim::cuda {

// Holds the same arrays as CudaCodes. The arrays never move, and no byte is written again once it was appended. So a
// snapshot is a CudaCodes that borrows their memory. An append (AppendCopier) never delays a scan.
class CudaAppendableCodes final : public AppendableCodes {
 public:
  // Makes room for `shape`, which is valid, on `device`, which must outlive the result and its snapshots. Returns
  // RESOURCE_EXHAUSTED if there is too little memory. The caller must pass errors to DeviceHealth::Note.
  static absl::StatusOr<std::shared_ptr<CudaAppendableCodes>> Create(Device* device, const AppendableCodesShape& shape);

  absl::Status Append(const CodesView& codes) override;
  std::shared_ptr<const LoadedCodes> Snapshot() const override;

 private:
  // Each snapshot shares ownership of the arrays. Arrays that the shape does not use are empty.
  struct Arrays {
    DeviceBuffer plane0;                 // [max_tokens, PlaneRowBytes]
    DeviceBuffer plane1;                 // [max_tokens, PlaneRowBytes], with 2 and 4 planes
    DeviceBuffer planes23;               // [max_tokens, FieldRowBytes], with 4 planes
    DeviceBuffer factors;                // [max_tokens], with factors
    DeviceBuffer offsets;                // int64_t, [max_documents + 1]; the first one is 0 from the start
    DeviceBuffer scales;                 // float, [max_documents]
    std::array<DeviceBuffer, 3> bounds;  // CodeBound, [max_documents] each; empty for more planes than are stored
  };

  CudaAppendableCodes(Device* device, const AppendableCodesShape& shape) : device_(device), shape_(shape) {}

  absl::Status Allocate();

  Device* const device_;
  const AppendableCodesShape shape_;
  const std::shared_ptr<Arrays> arrays_ = std::make_shared<Arrays>();

  AppendCopier copier_;  // belongs to the thread that appends
  AppendedLength length_;
};

}  // namespace maxsim::cuda
