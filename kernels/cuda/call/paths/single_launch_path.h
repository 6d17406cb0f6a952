// The path of a single-launch call (kernels/cuda/score/hopper_stream/single_launch_call.h): one launch does everything,
// and identical calls replay a CUDA graph of it.
#pragma once

#include "absl/status/status.h"
#include "kernels/cuda/call/planning/call_context.h"
#include "kernels/cuda/documents/cuda_documents.h"

namespace maxsim::cuda {

class SingleLaunchPath {
 public:
  // Returns whether the planned slice (workspace.input), for which ZeroCopyPath::Fits must have returned true, is a
  // single-launch call: one query of one query tile, whose rows a stream kernel holds in registers, over at most
  // kBlockSelectCandidates candidates, provided that tuning.single_launch_calls allows it.
  static bool Fits(const CallContext& context);

  // Borrows `documents`. The slice must be planned (workspace.input), and Fits must have returned true.
  SingleLaunchPath(const CallContext& context, const CudaDocuments& documents)
      : context_(context), documents_(documents) {}

  // Runs the slice (the planned queries) and waits for it: its results are then in workspace.pinned_results. Adds the
  // time of each stage to trace.seconds, and notes in the trace whether a graph was replayed. After an error nothing
  // runs on the CUDA stream any more.
  absl::Status Run() const;

  // Starts the same kernels as Run, but never as a graph. The input must be in workspace.pinned_input.
  absl::Status Launch() const;

 private:
  absl::Status LaunchOrReplay() const;

  const CallContext context_;
  const CudaDocuments& documents_;
};

}  // namespace maxsim::cuda
