#include "kernels/cuda/call/planning/call_arrival.h"

#include <algorithm>
#include <cstring>

namespace maxsim::cuda {
namespace {

static_assert(sizeof(DeviceScored) == sizeof(kNotThere));

bool IsThere(const void* value) {
  using Bits [[gnu::may_alias]] = uint64_t;
  return __atomic_load_n(static_cast<const Bits*>(value), __ATOMIC_ACQUIRE) != kNotThere;
}

}  // namespace

CallArrival::CallArrival(absl::Span<DeviceScored> results, CallTimes* times) : results_(results), times_(times) {
  std::memset(static_cast<void*>(results.data()), 0xff, results.size() * sizeof(DeviceScored));
  std::memset(static_cast<void*>(times), 0xff, sizeof(CallTimes));
}

bool CallArrival::IsComplete() {
  for (; num_there_ < results_.size(); ++num_there_) {
    if (!IsThere(&results_[num_there_])) return false;
  }
  return IsThere(&times_->input_begin) && IsThere(&times_->input_end) && IsThere(&times_->scores_end) &&
         IsThere(&times_->results_end);
}

std::chrono::nanoseconds CallArrival::DeviceTime() const {
  return std::chrono::nanoseconds(
      std::max(static_cast<int64_t>(times_->results_end - times_->input_begin), int64_t{0}));
}

}  // namespace maxsim::cuda
