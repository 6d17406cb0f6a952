#include "kernels/cuda/codes/cuda_scan_executor.h"

#include "kernels/cuda/codes/cuda_codes.h"
#include "kernels/cuda/runtime/cuda_error.h"

namespace maxsim::cuda {

absl::StatusOr<std::unique_ptr<CudaScanExecutor>> CudaScanExecutor::Create(Device& device) {
  MAXSIM_RETURN_IF_ERROR(device.health.Get());
  absl::StatusOr<CudaCodeScanner> scanner = CudaCodeScanner::Create(device);
  if (!scanner.ok()) return device.health.Note(scanner.status());
  return std::unique_ptr<CudaScanExecutor>(new CudaScanExecutor(*std::move(scanner)));
}

absl::Status CudaScanExecutor::Scan(absl::Span<const ScanCall> calls, CallTimings* timings) {
  calls_.clear();
  for (const ScanCall& call : calls) {
    const auto* codes = dynamic_cast<const CudaCodes*>(call.codes);
    if (codes == nullptr) return absl::InvalidArgumentError("codes were made by another backend");
    calls_.push_back({.codes = codes, .queries = call.queries, .results = call.results});
  }
  MAXSIM_RETURN_IF_ERROR(scanner_.Scan(calls_));
  if (timings != nullptr) timings->kernel_seconds += scanner_.scan_seconds() + scanner_.select_seconds();
  return absl::OkStatus();
}

}  // namespace maxsim::cuda
