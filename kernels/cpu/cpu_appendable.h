// Documents in host memory that further ones are appended to (AppendableDocuments, kernels/maxsim.h).
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/appended_length.h"
#include "kernels/maxsim.h"

namespace maxsim::cpu {

// The arrays never move and what was appended is never written again, so that snapshots are views of them and take no
// memory of their own.
class CpuAppendable final : public AppendableDocuments {
 public:
  // Makes room for `shape`, which is valid. The system gives the arrays' pages when they are written first.
  // RESOURCE_EXHAUSTED, with the numbers, when the machine has less memory than the arrays' size.
  static absl::StatusOr<std::shared_ptr<CpuAppendable>> Create(const AppendableShape& shape);

  absl::Status Append(const DocumentsView& documents) override;
  std::shared_ptr<const Documents> Snapshot() const override;
  absl::Status ReadRows(int64_t first_token, int64_t num_tokens, void* rows) const override;

 private:
  struct Arrays;

  CpuAppendable(const AppendableShape& shape, std::shared_ptr<Arrays> arrays);

  const AppendableShape shape_;
  const std::shared_ptr<Arrays> arrays_;  // snapshots hold on to them
  AppendedLength length_;
};

}  // namespace maxsim::cpu
