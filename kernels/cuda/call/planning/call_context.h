// The state that every step of a call works with.
#pragma once

#include "kernels/cuda/call/planning/call_trace.h"
#include "kernels/cuda/call/planning/executor_tuning.h"
#include "kernels/cuda/call/planning/workspace.h"
#include "kernels/cuda/runtime/device.h"

namespace maxsim::cuda {

// Borrows the executor's parts for the length of one call, so it can be copied freely. The plan and the input of the
// slice that is being run are in workspace.input.
struct CallContext {
  const Device& device;  // current in the thread that runs the call
  Workspace& workspace;
  const ExecutorTuning& tuning;
  CallTrace& trace;
};

}  // namespace maxsim::cuda
