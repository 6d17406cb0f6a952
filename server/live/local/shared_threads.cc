#include "server/live/local/shared_threads.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/monotonic_clock.h"
#include "base/start_thread.h"

namespace maxsim::live {

SharedTask::SharedTask(SharedThreads* threads, Step step) : threads_(threads), step_(std::move(step)) {}

SharedTask::~SharedTask() { Stop(); }

void SharedTask::Wake() {
  const MutexLock lock(&threads_->mutex_);
  if (stopped_) return;
  if (state_ == State::kRunning) {
    woken_ = true;
  } else if (state_ == State::kIdle) {
    threads_->MakeReady(this);
  }
}

void SharedTask::Stop() {
  MutexLock lock(&threads_->mutex_);
  stopped_ = true;
  while (state_ == State::kRunning) threads_->step_ended_.Wait(lock);
  if (state_ == State::kReady) std::erase(threads_->ready_, this);
  threads_->CancelTimer(this);
  state_ = State::kIdle;
}

SharedThreads::SharedThreads(std::string name, size_t max_threads)
    : name_(std::move(name)), max_threads_(max_threads) {}

SharedThreads::~SharedThreads() {
  std::vector<std::thread> threads;
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  ready_changed_.NotifyAll();
  for (std::thread& thread : threads) thread.join();
}

absl::Status SharedThreads::Start() {
  const MutexLock lock(&mutex_);
  return threads_.empty() ? AddThread() : absl::OkStatus();
}

absl::Status SharedThreads::AddThread() {
  threads_.reserve(max_threads_);
  std::thread thread;
  absl::Status status = StartThread(
      name_,
      [this] {
        pthread_setname_np(pthread_self(), name_.c_str());
        Run();
      },
      &thread);
  if (status.ok()) threads_.push_back(std::move(thread));
  return status;
}

void SharedThreads::MakeReady(SharedTask* task) {
  CancelTimer(task);
  task->state_ = SharedTask::State::kReady;
  ready_.push_back(task);
  const bool needs_thread = num_idle_ < ready_.size() && !threads_.empty() && threads_.size() < max_threads_;
  if (needs_thread) {
    AddThread().IgnoreError();  // if this fails, a running thread takes the task later
  } else if (num_idle_ > 0) {
    ready_changed_.NotifyOne();
  }
}

void SharedThreads::SetTimer(SharedTask* task, absl::Time at) {
  if (at == absl::InfiniteFuture()) return;
  task->at_ = at;
  const auto entry = timers_.emplace(at, task);
  // If this timer is now the first one, wakes a thread that sleeps until a later time, so that it computes its wait
  // again.
  if (entry == timers_.begin() && num_idle_ > 0) ready_changed_.NotifyOne();
}

void SharedThreads::CancelTimer(SharedTask* task) {
  if (task->at_ == absl::InfiniteFuture()) return;
  const auto [begin, end] = timers_.equal_range(task->at_);
  const auto entry = std::find_if(begin, end, [&](const auto& it) { return it.second == task; });
  if (entry != end) timers_.erase(entry);
  task->at_ = absl::InfiniteFuture();
}

void SharedThreads::TakeDueTimers() {
  if (timers_.empty()) return;
  const absl::Time now = MonotonicNow();
  while (!timers_.empty() && timers_.begin()->first <= now) MakeReady(timers_.begin()->second);
}

void SharedThreads::EndStep(SharedTask* task, absl::Time next) {
  task->state_ = SharedTask::State::kIdle;
  if (task->stopped_) {
    step_ended_.NotifyAll();
  } else if (task->woken_ || next <= MonotonicNow()) {
    task->state_ = SharedTask::State::kReady;
    ready_.push_back(task);  // this thread continues with the first ready task
  } else {
    SetTimer(task, next);
  }
}

void SharedThreads::Run() {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    TakeDueTimers();
    if (!ready_.empty()) {
      SharedTask* const task = ready_.front();
      ready_.pop_front();
      task->state_ = SharedTask::State::kRunning;
      task->woken_ = false;
      lock.Unlock();
      const absl::Time next = task->step_();
      lock.Lock();
      EndStep(task, next);
      continue;
    }
    ++num_idle_;
    if (timers_.empty()) {
      ready_changed_.Wait(lock);
    } else {
      ready_changed_.WaitFor(lock, absl::ToChronoNanoseconds(timers_.begin()->first - MonotonicNow()));
    }
    --num_idle_;
  }
}

}  // namespace maxsim::live
