#include "server/engine/helper_thread.h"

#include <utility>

#include "base/thread_name.h"

namespace maxsim::engine {

HelperThread::HelperThread() : thread_([this] { Loop(); }) {}

HelperThread::~HelperThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HelperThread::Start(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_ = std::move(work);
    busy_ = true;
  }
  changed_.notify_all();
}

void HelperThread::Wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
}

void HelperThread::Loop() {
  NameThisThread("lane-helper");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || busy_; });
    if (stop_) return;
    lock.unlock();
    work_();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace maxsim::engine
