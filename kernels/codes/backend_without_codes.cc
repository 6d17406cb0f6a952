// The default implementations of Backend's functions for codes. They return UNIMPLEMENTED.
#include "absl/strings/str_cat.h"
#include "kernels/codes/appendable_codes.h"
#include "kernels/codes/scan_executor.h"
#include "kernels/maxsim.h"

namespace maxsim {

MemoryNeed Backend::CodeBytesNeeded(const CodeShape&, int, int64_t, int64_t) const { return {}; }

size_t Backend::ScanBytesNeeded(const CodeShape&, int64_t) const { return 0; }

// NOLINTNEXTLINE(performance-unnecessary-value-param): backends that scan codes keep the pointer.
absl::StatusOr<std::unique_ptr<LoadedCodes>> Backend::LoadCodes(const CodesView&, int, std::shared_ptr<const void>) {
  return absl::UnimplementedError(absl::StrCat("the backend ", info().name, " scans no codes"));
}

absl::StatusOr<std::shared_ptr<AppendableCodes>> Backend::CreateAppendableCodes(const AppendableCodesShape&) {
  return absl::UnimplementedError(absl::StrCat("the backend ", info().name, " scans no codes"));
}

absl::StatusOr<std::unique_ptr<ScanExecutor>> Backend::CreateScanExecutor() {
  return absl::UnimplementedError(absl::StrCat("the backend ", info().name, " scans no codes"));
}

}  // namespace maxsim
