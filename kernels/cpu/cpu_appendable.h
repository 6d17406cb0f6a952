// Documents in host memory to which more documents can be appended (AppendableDocuments, kernels/maxsim.h).
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/appended_length.h"
#include "kernels/maxsim.h"

namespace maxsim::cpu {

// The arrays never move, and appended bytes never change, so a snapshot is a view of the arrays that takes no memory.
class CpuAppendable final : public AppendableDocuments {
 public:
  // Reserves memory for `shape`, which must be valid. The system allocates each page of the arrays at its first write.
  // Returns RESOURCE_EXHAUSTED if the machine has less memory than the arrays' size.
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
