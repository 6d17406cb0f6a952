// The knobs of a CUDA executor. The knobs choose among ways to run a call that all give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/call/planning/call_wait.h"
#include "kernels/cuda/score/hopper_stream/single_launch_call.h"
#include "kernels/plan/claims.h"
#include "kernels/plan/shares.h"

namespace maxsim::cuda {

// Says when candidate lists are joined: never (kNever), if that saves time (kWorthwhile), or if it saves any reads.
enum class Joins : uint8_t { kNever, kWorthwhile, kWheneverReadsAreSaved };

// Says when candidates are ordered before a wide or deep kernel scores them: never (kNever), if that saves time
// (kWorthwhile), or whenever it is possible (kAlways).
enum class Ordering : uint8_t { kNever, kWorthwhile, kAlways };

// Servers leave the defaults; tests and measurements set others through CudaExecutor::tuning(). A new value applies to
// calls that begin after it was set.
struct ExecutorTuning {
  // The tilings (kernels and tile sizes) that a call may choose from, one bit each (DeviceLimits::tiles). If none of
  // them can run, the call uses kRows32.
  uint32_t tiles = ~uint32_t{0};

  Joins joins = Joins::kWorthwhile;           // kernels/plan/list_join.h
  Ordering ordering = Ordering::kWorthwhile;  // kernels/plan/order.h
  StreamTuning stream;                        // how the stream kernels' work is shared out

  // The largest slices that are zero-copy calls, in bytes of input and in number of results. In a zero-copy call,
  // kernels read and write pinned memory themselves. For larger slices, copy engines are as fast and keep no
  // multiprocessor busy.
  size_t zero_copy_input_bytes = size_t{512} << 10;
  int64_t zero_copy_results = 4096;

  // Whether a slice of one short query over few candidates is a single-launch call, if a kernel supports that.
  bool single_launch_calls = true;
  int32_t single_launch_patience = kSingleLaunchPatience;  // SingleLaunchCall::patience, in polls of some 0.7 us

  WaitMode wait_mode = WaitMode::kAdaptive;  // how zero-copy calls are waited for

  // Whether events measure the time of each stage. If set, every call is copied in and out, and events separate its
  // stages: the copy of the input with the rounding of queries to INT8, then kernels only, then the copy of the
  // results. If not set, the kernels of zero-copy calls note the times.
  bool stage_events = false;

  ClaimTuning claims;  // how much the thread blocks of wide and deep kernels claim at a time
};

}  // namespace maxsim::cuda
