// Lets the host see when the results of a zero-copy call have arrived (kernels/cuda/select/completion.h).
#pragma once

#include <chrono>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cuda/select/completion.h"

namespace maxsim::cuda {

// Watches one call. Not thread-safe.
class CallArrival {
 public:
  // Fills `results` and `times`, which are in pinned memory, with kNotThere. Construct the object before the call is
  // launched. Both arguments must outlive the object.
  CallArrival(absl::Span<DeviceScored> results, CallTimes* times);

  // Returns whether all results and times have arrived. If so, the caller may read them. Does not check results again
  // that it has already seen.
  bool IsComplete();

  // Returns how long the call took on the device, or 0 if the device's clock stepped back. Call it only after
  // IsComplete has returned true.
  std::chrono::nanoseconds DeviceTime() const;

 private:
  absl::Span<DeviceScored> results_;
  CallTimes* times_;
  size_t num_there_ = 0;  // number of leading results that have been seen
};

}  // namespace maxsim::cuda
