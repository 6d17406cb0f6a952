#include "kernels/cuda/call/call_wait.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <ctime>

namespace maxsim::cuda {
namespace {

using Duration = CallWait::Clock::duration;
using std::chrono::microseconds;

// Four classes of work an octave: within one, times differ by less than the polling covers.
constexpr int kClassesOfOctave = 4;
constexpr int kClasses = 64 * kClassesOfOctave;

constexpr Duration kPollPastRest = microseconds(8);
// Polling begins about this long before the end.
constexpr Duration kMargin = microseconds(4);
// Sleeping costs two switches of context, and a processor that has slept begins slowly: calls of one query over a
// thousand documents are polled for all the while.
constexpr Duration kLeastRest = microseconds(30);
// Calls of more than that lose nothing by waiting for the event.
constexpr Duration kMostRest = microseconds(2000);
// What waiting for an event takes longer than the call.
constexpr Duration kWakeUp = microseconds(25);
constexpr Duration kStep = microseconds(4);

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Sleeps until `time` as exactly as the kernel can: its timers may be 50 us late where a thread does not ask for
// better.
void SleepUntil(CallWait::Clock::time_point time) {
  const auto since_boot = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  timespec until{};
  until.tv_sec = static_cast<time_t>(since_boot / 1000000000);
  until.tv_nsec = static_cast<decltype(until.tv_nsec)>(since_boot % 1000000000);
  const int slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  if (slack > 0) prctl(PR_SET_TIMERSLACK, slack, 0, 0, 0);
}

bool PollUntil(CallArrival& arrival, CallWait::Clock::time_point end) {
  while (!arrival.IsComplete()) {
    if (CallWait::Clock::now() >= end) return false;
    Pause();
  }
  return true;
}

}  // namespace

CallWait::CallWait() : rests_(kClasses, Duration::zero()) {}

absl::Status CallWait::Wait(CallArrival& arrival, const Event& event, Clock::time_point begin, double work) {
  if (mode_ == WaitMode::kEvent) return event.Wait();
  if (mode_ == WaitMode::kPoll) {
    return PollUntil(arrival, begin + std::chrono::seconds(1)) ? absl::OkStatus() : event.Wait();
  }
  const int place = static_cast<int>(std::log2(std::max(work, 1.0)) * kClassesOfOctave);
  Duration& rest = rests_[static_cast<size_t>(std::min(place, kClasses - 1))];
  if (rest < kMostRest) {
    if (rest >= kLeastRest) SleepUntil(begin + rest);
    if (arrival.IsComplete()) {
      // Too long a rest, and perhaps by far. What the call took on the device says how far, unless it had to wait
      // there.
      const Duration device_time = std::chrono::duration_cast<Duration>(arrival.DeviceTime());
      rest = std::max(std::min(rest - std::min(rest, kStep), device_time), rest / 2);
      return absl::OkStatus();
    }
    const Clock::time_point end = std::max(begin + std::max(rest, kLeastRest), Clock::now()) + kPollPastRest;
    if (PollUntil(arrival, end)) {
      // Not later than `end`: a thread that had to leave its processor says nothing of calls.
      const Duration took = std::min(Clock::now(), end) - begin;
      rest = std::max(rest + (took - kMargin - rest) / 4, Duration::zero());
      return absl::OkStatus();
    }
  }
  absl::Status status = event.Wait();
  rest =
      std::min(std::max(Clock::now() - begin - kWakeUp, rest < kMostRest ? rest + kStep : Duration::zero()), kMostRest);
  return status;
}

}  // namespace maxsim::cuda
