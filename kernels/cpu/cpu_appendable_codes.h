// Codes in host memory to which more codes can be appended (AppendableCodes, kernels/codes/appendable_codes.h).
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/appended_length.h"
#include "kernels/codes/appendable_codes.h"

namespace maxsim::cpu {

// The arrays never move, and appended bytes never change, so a snapshot is a view of the arrays that takes no memory.
class CpuAppendableCodes final : public AppendableCodes {
 public:
  // Reserves memory for `shape`, which must be valid. Returns RESOURCE_EXHAUSTED if the machine has less memory than
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
