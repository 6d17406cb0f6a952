// A call of one short query over few candidates, by one launch of a stream kernel: it brings the query's rows over
// before it multiplies and selects after it has scored. Two launches fewer, and two times fewer that all thread blocks
// have to end before the next ones begin.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/completion.h"

namespace maxsim::cuda {

// What the thread blocks tell each other, in device memory. Zero before the launch and after it.
struct LoneCallState {
  uint32_t begun;  // blocks; the first one brings the input over
  uint32_t input_there;
  uint32_t ended;  // blocks whose scores are there; the last one selects
  uint32_t unused;
};

struct LoneCall {
  LoneCallState* state;  // null: the launch scores, and others see to the rest
  // The input but the list of candidates, which every block reads in the host's memory: what it needs of that is
  // little, and wanted first of all. No bytes: it is on the device.
  const uint4* host_input;
  uint4* input;
  uint32_t input_bytes;  // a multiple of 16
  int32_t num_candidates;
  int64_t k;
  DeviceScored* results;  // in pinned memory
  CallTimes* times;       // in pinned memory; those of the input only where there is some
};

}  // namespace maxsim::cuda
