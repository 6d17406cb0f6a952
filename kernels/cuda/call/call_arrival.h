// Watches a small call's results come in (kernels/cuda/call/completion.h).
#pragma once

#include <chrono>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cuda/call/completion.h"

namespace maxsim::cuda {

class CallArrival {
 public:
  // Empties the places, in pinned memory, before the call is launched. They must outlive this.
  CallArrival(absl::Span<DeviceScored> results, CallTimes* times);

  // Whether every result and every time is there; results that were seen are not looked at again. Once true, they can
  // be read.
  bool IsComplete();

  // What the complete call took on the device.
  std::chrono::nanoseconds DeviceTime() const;

 private:
  absl::Span<DeviceScored> results_;
  CallTimes* times_;
  size_t num_there_ = 0;  // results, from the first on
};

}  // namespace maxsim::cuda
