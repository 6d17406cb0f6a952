#include "server/batching/answer_threads.h"

#include <utility>

#include "base/thread_name.h"

namespace maxsim::batching {

AnswerThreads::AnswerThreads(int num_threads) : num_free_(num_threads) {
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
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool AnswerThreads::TryStart(Work& work) {
  {
    const std::lock_guard lock(mutex_);
    if (num_free_ == 0) return false;
    --num_free_;
    taken_.push_back(std::move(work));
  }
  changed_.notify_one();
  return true;
}

void AnswerThreads::Loop() {
  NameThisThread("answer");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !taken_.empty(); });
    if (taken_.empty()) return;
    Work work = std::move(taken_.front());
    taken_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it held goes before the thread counts as free
    lock.lock();
    ++num_free_;
  }
}

}  // namespace maxsim::batching
