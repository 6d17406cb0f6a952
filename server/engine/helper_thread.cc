#include "server/engine/helper_thread.h"

#include <utility>

#include "base/thread_name.h"

namespace maxsim::engine {

HelperThread::HelperThread() : thread_([this] { Loop(); }) {}

HelperThread::~HelperThread() {
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void HelperThread::Start(std::function<void()> work) {
  {
    const MutexLock lock(&mutex_);
    work_ = std::move(work);
    busy_ = true;
  }
  changed_.NotifyAll();
}

void HelperThread::Wait() {
  MutexLock lock(&mutex_);
  while (busy_) changed_.Wait(lock);
}

void HelperThread::Loop() {
  NameThisThread("lane-helper");
  MutexLock lock(&mutex_);
  while (true) {
    while (!stop_ && !busy_) changed_.Wait(lock);
    if (stop_) return;
    const std::function<void()> work = std::move(work_);
    lock.Unlock();
    work();
    lock.Lock();
    busy_ = false;
    changed_.NotifyAll();
  }
}

}  // namespace maxsim::engine
