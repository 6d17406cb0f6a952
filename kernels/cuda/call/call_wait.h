// Waiting for a call of some ten microseconds. Waiting for an event asleep costs an interrupt and a wake-up, which is
// as long again; polling all the time costs a core. So: poll all along for calls of up to some 30 us; for longer ones
// sleep for nearly as long as such calls have taken, and then poll for a few microseconds; and wait for the event when
// that was not enough.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/call/call_arrival.h"
#include "kernels/cuda/runtime/event.h"

namespace maxsim::cuda {

// How to wait; all but kAdaptive are for tests and measurements.
enum class WaitMode : uint8_t { kAdaptive, kPoll, kEvent };

// Learns how long calls take. Not thread-safe.
class CallWait {
 public:
  using Clock = std::chrono::steady_clock;

  CallWait();

  void SetMode(WaitMode mode) { mode_ = mode; }

  // Waits until all of the call's results have arrived or `event`, recorded behind it, is done; an error is the
  // event's. `begin` is when the call was launched, `work` any measure of it: calls of about the same work take about
  // the same time.
  absl::Status Wait(CallArrival& arrival, const Event& event, Clock::time_point begin, double work);

 private:
  WaitMode mode_ = WaitMode::kAdaptive;
  std::vector<Clock::duration> rests_;  // how long to sleep from `begin` on, by work
};

}  // namespace maxsim::cuda
