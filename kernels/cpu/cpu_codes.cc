#include "kernels/cpu/cpu_codes.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "kernels/codes/code_layout.h"

namespace maxsim::cpu {

absl::StatusOr<std::unique_ptr<CpuCodes>> CpuCodes::Create(const CodesView& view, int planes,
                                                           std::shared_ptr<const void> keep_alive) {
  if (absl::Status status = ValidateCodes(view); !status.ok()) return status;
  if (!IsPlaneCount(planes) || planes > view.planes) {
    return absl::InvalidArgumentError(
        absl::StrCat("planes is ", planes, "; must be 1, 2 or 4, and at most the ", view.planes, " of the codes"));
  }
  CodesView some = view;
  some.planes = planes;
  return std::unique_ptr<CpuCodes>(new CpuCodes(some, std::move(keep_alive)));
}

absl::Status CpuScanExecutor::Scan(absl::Span<const ScanCall> calls, CallTimings* timings) {
  const auto start = std::chrono::steady_clock::now();
  absl::Status status;
  for (const ScanCall& call : calls) {
    const auto* codes = dynamic_cast<const CpuCodes*>(call.codes);
    status = codes == nullptr ? absl::InvalidArgumentError("codes were made by another backend")
                              : scanner_.Scan(codes->view(), call.queries, call.results);
    if (!status.ok()) break;
  }
  if (timings != nullptr) {
    timings->kernel_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return status;
}

}  // namespace maxsim::cpu
