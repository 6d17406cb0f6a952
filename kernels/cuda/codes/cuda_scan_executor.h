// The CUDA backend's executor of scans (kernels/codes/scan_executor.h).
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/codes/scan_executor.h"
#include "kernels/cuda/codes/cuda_code_scanner.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/maxsim.h"

namespace maxsim::cuda {

class CudaScanExecutor final : public ScanExecutor {
 public:
  // `device` must outlive this object.
  static absl::StatusOr<std::unique_ptr<CudaScanExecutor>> Create(Device& device);

  // Also returns INVALID_ARGUMENT for codes of another device.
  absl::Status Scan(absl::Span<const ScanCall> calls, CallTimings* timings) override;
  size_t workspace_bytes() const override { return scanner_.workspace_bytes(); }

 private:
  explicit CudaScanExecutor(CudaCodeScanner scanner) : scanner_(std::move(scanner)) {}

  CudaCodeScanner scanner_;
  std::vector<CudaCodeScanner::Call> calls_;  // of the call under way
};

}  // namespace maxsim::cuda
