#include "server/tracing/span_queue.h"

#include <algorithm>
#include <utility>

namespace maxsim::tracing {

bool SpanQueue::Push(std::unique_ptr<SpanData>& span) {
  bool is_batch = false;
  {
    const MutexLock lock(&mutex_);
    if (is_closed_ || size_ == ring_.size()) return false;
    ring_[(first_ + size_) % ring_.size()] = std::move(span);
    ++size_;
    is_batch = size_ == std::min(max_batch_, ring_.size());
  }
  if (is_batch) changed_.NotifyOne();
  return true;
}

std::vector<std::unique_ptr<SpanData>> SpanQueue::Take(std::chrono::nanoseconds max_delay) {
  std::vector<std::unique_ptr<SpanData>> batch;
  batch.reserve(max_batch_);
  const auto end = std::chrono::steady_clock::now() + max_delay;
  MutexLock lock(&mutex_);
  while (!is_closed_ && size_ < std::min(max_batch_, ring_.size()) && changed_.WaitUntil(lock, end)) {
  }
  for (; size_ > 0 && batch.size() < max_batch_; --size_) {
    batch.push_back(std::move(ring_[first_]));
    first_ = (first_ + 1) % ring_.size();
  }
  return batch;
}

void SpanQueue::Close() {
  {
    const MutexLock lock(&mutex_);
    is_closed_ = true;
  }
  changed_.NotifyOne();
}

}  // namespace maxsim::tracing
