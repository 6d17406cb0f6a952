// A single-launch call scores one short query over few candidates with one launch of a stream kernel. The kernel
// copies the query's rows to the device, scores the candidates and selects the results. Other zero-copy calls take
// three launches, and each launch waits until all thread blocks of the one before it have ended. If the documents are
// I8, a launch before the stream kernel copies and rounds the query. kernels/cuda/call/paths/single_launch_path.h has
// the host's side.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/select/completion.h"
#include "kernels/plan/hopper_stream_shape.h"
#include "kernels/plan/rows.h"

namespace maxsim::cuda {

// Maximum bytes of the copied input: the query rows that registers can hold, and their weights.
inline constexpr int32_t kSingleLaunchInputBytes = kQueryTileTokens * kStreamRegisterRowBytes + 256;

// A thread block polls this many times for the input, some 0.7 us each, before it copies the input itself.
inline constexpr int32_t kSingleLaunchPatience = 64;

// State in device memory that the thread blocks share. All of it is zero before the launch and after it.
struct SingleLaunchState {
  uint32_t input_there;  // whether the query's rows are in device memory
  uint32_t ended;        // thread blocks whose scores are there; the last one selects
};

struct SingleLaunchCall {
  SingleLaunchState* state;  // null if other launches copy the input and select, and this launch only scores
  // The kernel copies the query's weights and rows from `host_input`, in pinned memory, to `input`, in device memory.
  // If input_bytes is 0 they are on the device already. The list of candidates stays in pinned memory, because a thread
  // block needs only a small part of it, and needs that part before everything else.
  const uint4* host_input;
  uint4* input;
  uint32_t input_bytes;  // a multiple of 16, at most kSingleLaunchInputBytes
  int32_t num_candidates;
  int32_t k;
  int32_t patience;       // polls of a thread block for the input; see kSingleLaunchPatience
  DeviceScored* results;  // [k] in pinned memory
  CallTimes* times;       // in pinned memory; times of the input are noted only if input_bytes is not 0
};

}  // namespace maxsim::cuda
