// How the host sees the results of a zero-copy call come in (kernels/cuda/select/completion.h).
#pragma once

#include <chrono>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cuda/select/completion.h"

namespace maxsim::cuda {

// Watches one call. Not thread-safe.
class CallArrival {
 public:
  // Fills `results` and `times`, which are in pinned memory, with kNotThere. To be made before the call is launched.
  // Both must outlive this.
  CallArrival(absl::Span<DeviceScored> results, CallTimes* times);

  // Returns whether every result and every time is there, which may then be read. Looks no more at results that it has
  // seen.
  bool IsComplete();

  // Returns what the call took on the device; 0 where the clock stepped back. To be asked when the call is complete.
  std::chrono::nanoseconds DeviceTime() const;

 private:
  absl::Span<DeviceScored> results_;
  CallTimes* times_;
  size_t num_there_ = 0;  // number of leading results that have been seen
};

}  // namespace maxsim::cuda
