// Codes in host memory that further ones are appended to (AppendableCodes, kernels/codes/appendable_codes.h).
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/appended_length.h"
#include "kernels/codes/appendable_codes.h"

namespace maxsim::cpu {

// The arrays never move and what was appended is never written again, so that snapshots are views of them and take no
// memory of their own.
class CpuAppendableCodes final : public AppendableCodes {
 public:
  // Makes room for `shape`, which is valid. RESOURCE_EXHAUSTED, with the numbers, when the machine has less memory than
  // the arrays' size (CodeArrayBytes).
  static absl::StatusOr<std::shared_ptr<CpuAppendableCodes>> Create(const AppendableCodesShape& shape);

  absl::Status Append(const CodesView& codes) override;
  std::shared_ptr<const LoadedCodes> Snapshot() const override;

 private:
  struct Arrays;

  CpuAppendableCodes(const AppendableCodesShape& shape, std::shared_ptr<Arrays> arrays);

  const AppendableCodesShape shape_;
  const std::shared_ptr<Arrays> arrays_;  // snapshots hold on to them
  AppendedLength length_;
};

}  // namespace maxsim::cpu
