// The path of a slice whose input and results are copied: one copy to the device, scoring, selection, one copy back.
// The calling thread sleeps until the results have arrived.
#pragma once

#include "absl/status/status.h"
#include "kernels/cuda/call/planning/call_context.h"
#include "kernels/cuda/documents/cuda_documents.h"

namespace maxsim::cuda {

class CopiedPath {
 public:
  // Borrows `documents`. The slice is planned (workspace.input) and has candidates.
  CopiedPath(const CallContext& context, const CudaDocuments& documents) : context_(context), documents_(documents) {}

  // Runs the slice (the planned queries) and waits for it: its results are then in workspace.pinned_results. Adds the
  // time of each stage to trace.seconds. After an error nothing runs on the CUDA stream any more.
  absl::Status Run() const;

 private:
  const CallContext context_;
  const CudaDocuments& documents_;
};

}  // namespace maxsim::cuda
