// The path of a zero-copy call: a small slice that takes no copies. The first kernel reads the input from pinned
// memory, and the last one writes the results to pinned memory. Each kernel can begin while the one before it in the
// CUDA stream ends; only kernels that join lists do not overlap in this way.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/cuda/call/planning/call_context.h"
#include "kernels/cuda/documents/cuda_documents.h"

namespace maxsim::cuda {

class ZeroCopyPath {
 public:
  // Returns whether the slice that is planned (workspace.input) is a zero-copy call. A single-launch call is one, too.
  static bool Fits(const CallContext& context);

  // Borrows `documents`. The slice must be planned (workspace.input), and Fits must have returned true.
  ZeroCopyPath(const CallContext& context, const CudaDocuments& documents) : context_(context), documents_(documents) {}

  // Runs the slice (the planned queries) and waits for it: its results are then in workspace.pinned_results. Adds the
  // time of each stage to trace.seconds. After an error nothing runs on the CUDA stream any more.
  absl::Status Run() const;

  // Starts the same kernels as Run. The input must be in workspace.pinned_input.
  absl::Status Launch() const;

 private:
  const CallContext context_;
  const CudaDocuments& documents_;
};

// Runs a slice whose kernels write their results and times to pinned memory, as ZeroCopyPath::Run does: writes the
// input, calls `launch`, which starts the kernels, waits until every result has arrived, and adds to trace.seconds.
absl::Status RunWithoutCopies(const CallContext& context, const CudaDocuments& documents,
                              absl::FunctionRef<absl::Status()> launch);

}  // namespace maxsim::cuda
