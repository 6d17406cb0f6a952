// A single-launch call scores one short query over few candidates by one launch of a stream kernel, which brings the
// query's rows over before it multiplies and selects after it has scored. Other small calls take three launches, of
// which each waits until all thread blocks of the one before it have ended. A query against I8 documents is rounded,
// and brought over, by a launch of its own before.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/call/completion.h"
#include "kernels/cuda/score/hopper_stream/config.h"
#include "kernels/plan/rows.h"

namespace maxsim::cuda {

// Rows that registers hold, and room for their weights.
inline constexpr int32_t kSingleLaunchInputBytes = kQueryTileTokens * kStreamRegisterRowBytes + 256;

// How often, of some 0.7 us each, a thread block looks for the input before it brings it over itself.
inline constexpr int32_t kSingleLaunchPatience = 64;

// What the thread blocks tell each other, in device memory. Zero before the launch and after it.
struct SingleLaunchState {
  uint32_t input_there;
  uint32_t ended;  // thread blocks whose scores are there; the last one selects
};

struct SingleLaunchCall {
  SingleLaunchState* state;  // null: the launch scores, and others see to the rest
  // The query's rows with their weights, to be brought over. No bytes: they are on the device. The list of candidates
  // is read in the host's memory: what a thread block needs of that is little, and wanted first of all.
  const uint4* host_input;
  uint4* input;
  uint32_t input_bytes;  // a multiple of 16, at most kSingleLaunchInputBytes
  int32_t num_candidates;
  int32_t k;
  int32_t patience;       // as kSingleLaunchPatience
  DeviceScored* results;  // [k] in pinned memory
  CallTimes* times;       // in pinned memory; those of the input only where there is some
};

}  // namespace maxsim::cuda
