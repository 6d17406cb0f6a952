#include "kernels/cuda/call/planning/call_wait.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <ctime>

namespace maxsim::cuda {
namespace {

using Duration = CallWait::Clock::duration;
using std::chrono::microseconds;

// Calls are classed by their work, in four classes per doubling of the work. The times of calls in one class differ
// by less than kPollBeyondSleep.
constexpr int kClassesOfOctave = 4;
constexpr int kClasses = 64 * kClassesOfOctave;

// How long a thread polls for a call's results after it has slept. A thread that does not sleep polls for kLeastSleep
// longer.
constexpr Duration kPollBeyondSleep = microseconds(8);
// Polling begins about this long before the end of the call.
constexpr Duration kMargin = microseconds(4);
// The shortest sleep. Sleeping costs two context switches, and a processor that has slept is slow at first. So a thread
// polls from beginning to end for a short call, such as one query over a thousand documents.
constexpr Duration kLeastSleep = microseconds(30);
// If a thread would sleep longer than this, it waits for the event instead, which costs nothing for such a long call.
constexpr Duration kMaxSleep = microseconds(2000);
// A thread that waits for an event wakes up this long after the call has ended.
constexpr Duration kWakeUp = microseconds(25);
// Minimum change of the sleep for the next call of similar work. If the results were there when the thread woke up, the
// sleep becomes shorter by at least this much. If the results had not arrived when polling ended, the sleep becomes
// longer by at least this much.
constexpr Duration kStep = microseconds(4);

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Sleeps until `time` as exactly as the operating system can: its timers may be 50 us late unless a thread asks for
// better ones.
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

// Returns whether the results have arrived before `end`.
bool PollUntil(CallArrival& arrival, CallWait::Clock::time_point end) {
  while (!arrival.IsComplete()) {
    if (CallWait::Clock::now() >= end) return false;
    Pause();
  }
  return true;
}

}  // namespace

CallWait::CallWait() : sleep_times_(kClasses, Duration::zero()) {}

absl::Status CallWait::Wait(WaitMode mode, CallArrival& arrival, const Event& event, Clock::time_point begin,
                            double work) {
  if (mode == WaitMode::kEvent) return event.Wait();
  if (mode == WaitMode::kPoll) {
    return PollUntil(arrival, begin + std::chrono::seconds(1)) ? absl::OkStatus() : event.Wait();
  }
  const int work_class = static_cast<int>(std::log2(std::max(work, 1.0)) * kClassesOfOctave);
  Duration& sleep = sleep_times_[static_cast<size_t>(std::min(work_class, kClasses - 1))];
  if (sleep < kMaxSleep) {
    if (sleep >= kLeastSleep) SleepUntil(begin + sleep);
    if (arrival.IsComplete()) {
      // The sleep was too long, perhaps by far. The call's time on the device says by how much, unless the call had to
      // wait for the device.
      const Duration device_time = std::chrono::duration_cast<Duration>(arrival.DeviceTime());
      sleep = std::max(std::min(sleep - std::min(sleep, kStep), device_time), sleep / 2);
      return absl::OkStatus();
    }
    const Clock::time_point end = std::max(begin + std::max(sleep, kLeastSleep), Clock::now()) + kPollBeyondSleep;
    if (PollUntil(arrival, end)) {
      // The measured time ends at `end` at the latest. If it is longer, the thread had lost its processor, and the
      // excess says nothing about the call.
      const Duration took = std::min(Clock::now(), end) - begin;
      sleep = std::max(sleep + (took - kMargin - sleep) / 4, Duration::zero());
      return absl::OkStatus();
    }
  }
  absl::Status status = event.Wait();
  sleep = std::min(std::max(Clock::now() - begin - kWakeUp, sleep < kMaxSleep ? sleep + kStep : Duration::zero()),
                   kMaxSleep);
  return status;
}

}  // namespace maxsim::cuda
