#include "server/batching/answer_threads.h"

#include <utility>

#include "base/thread_name.h"

namespace maxsim::batching {

AnswerThreads::AnswerThreads(int num_threads) : num_idle_(num_threads) {
  try {
    for (int idx = 0; idx < num_threads; ++idx) threads_.emplace_back([this] { Loop(); });
  } catch (...) {
    Stop();
    throw;
  }
}

AnswerThreads::~AnswerThreads() { Stop(); }

void AnswerThreads::Stop() {
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

bool AnswerThreads::TryStart(Work& work) {
  {
    const MutexLock lock(&mutex_);
    if (num_idle_ == 0) return false;
    --num_idle_;
    pending_.push_back(std::move(work));
  }
  changed_.NotifyOne();
  return true;
}

void AnswerThreads::Loop() {
  NameThisThread("answer");
  MutexLock lock(&mutex_);
  while (true) {
    while (!stop_ && pending_.empty()) changed_.Wait(lock);
    if (pending_.empty()) return;
    Work work = std::move(pending_.front());
    pending_.pop_front();
    lock.Unlock();
    work();
    work = nullptr;  // Frees what the work held before the thread counts as idle.
    lock.Lock();
    ++num_idle_;
  }
}

}  // namespace maxsim::batching
