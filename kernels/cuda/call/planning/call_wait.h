// Waits for calls that take only some ten microseconds. A thread that sleeps until an event is done needs an
// interrupt and a wake-up, which take as long as the call itself; a thread that polls uses a whole core. So for calls
// of up to about 30 us the host polls all the time. For longer calls it sleeps for nearly as long as similar calls
// have taken, then polls for a few microseconds, and if the call is still not done, sleeps until the event is done.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/call/planning/call_arrival.h"
#include "kernels/cuda/runtime/event.h"

namespace maxsim::cuda {

// How a thread waits: as the comment at the top of this file says (kAdaptive), by polling only, or by waiting for the
// event only. The last two are for tests and measurements.
enum class WaitMode : uint8_t { kAdaptive, kPoll, kEvent };

// Waits for calls, and learns how long they take. Not thread-safe.
class CallWait {
 public:
  using Clock = std::chrono::steady_clock;

  CallWait();

  // Waits until all of the call's results have arrived, or until `event`, which was recorded after the call, is done.
  // Returns the event's error. `begin` is when the call was launched. `work` is any measure of the call's work: calls
  // with about the same work take about the same time.
  absl::Status Wait(WaitMode mode, CallArrival& arrival, const Event& event, Clock::time_point begin, double work);

 private:
  // For each class of work, how long a thread sleeps after `begin` before it polls.
  std::vector<Clock::duration> sleep_times_;
};

}  // namespace maxsim::cuda
