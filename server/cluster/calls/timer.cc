#include "server/cluster/calls/timer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/thread_name.h"

namespace maxsim::cluster {

Timer::Timer() : thread_([this] { Run(); }) {}

Timer::~Timer() {
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void Timer::At(absl::Time time, absl::Duration slack, absl::AnyInvocable<void()> run) {
  if (slack > absl::ZeroDuration()) time = absl::UnixEpoch() + absl::Ceil(time - absl::UnixEpoch(), slack);
  bool is_next = false;
  {
    const MutexLock lock(&mutex_);
    is_next = entries_.empty() || time < entries_.front().time;
    entries_.push_back({time, next_number_++, std::move(run)});
    std::push_heap(entries_.begin(), entries_.end(), Later());
  }
  if (is_next) changed_.NotifyAll();
}

void Timer::Run() {
  NameThisThread("cluster-timer");
  MutexLock lock(&mutex_);
  while (!stopping_) {
    if (entries_.empty()) {
      changed_.Wait(lock);
      continue;
    }
    const absl::Duration left = entries_.front().time - MonotonicNow();
    if (left > absl::ZeroDuration()) {
      changed_.WaitFor(lock, absl::ToChronoNanoseconds(left));
      continue;
    }
    std::pop_heap(entries_.begin(), entries_.end(), Later());
    absl::AnyInvocable<void()> run = std::move(entries_.back().run);
    entries_.pop_back();
    lock.Unlock();
    // If the function runs out of memory, the timer drops it and goes on. A group call handles this case itself
    // (GroupCall::Protected).
    Guarded([&] {
      run();
      return absl::OkStatus();
    }).IgnoreError();
    run = nullptr;  // outside of the lock as well
    lock.Lock();
  }
}

}  // namespace maxsim::cluster
