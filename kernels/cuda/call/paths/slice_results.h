// Selects the best candidates of a scored slice and copies them to the host. The slice's plan is workspace.input.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/call/planning/call_context.h"
#include "kernels/cuda/call/planning/workspace.h"
#include "kernels/cuda/runtime/event.h"
#include "kernels/cuda/select/completion.h"
#include "kernels/maxsim.h"

namespace maxsim::cuda {

// Starts the selection from workspace.scores. `results` has room for the slice's results and is in device or pinned
// memory. The last kernel notes its times in `times`, in pinned memory, which may be null.
absl::Status LaunchSelection(const CallContext& context, DeviceScored* results, CallTimes* times);

// Starts the selection and the copy of its results to workspace.pinned_results. Records events at the end of the
// scores, of the selection and of the copy, and sleeps until the last event is done.
absl::Status SelectAndCopyResults(const CallContext& context);

// Adds the time of each stage to trace.seconds, from the events in the workspace. The slice must have ended.
// `copied_in` is the event after the copies of everything to be scored.
absl::Status AddStageSeconds(const CallContext& context, const Event& copied_in);

// Copies the slice's results from workspace.pinned_results to `results`, which has one element per query of the slice.
void GiveResults(const Workspace& workspace, absl::Span<std::vector<Scored>> results);

}  // namespace maxsim::cuda
