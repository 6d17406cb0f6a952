// The queue of spans that wait to be sent, a ring of fixed size. Request threads fill it, and the sending thread
// empties it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/tracing/span.h"

namespace maxsim::tracing {

// The class is thread-safe.
class SpanQueue {
 public:
  // The queue holds at most `capacity` spans, and Take returns at most `max_batch` at once. Both must be at least 1.
  SpanQueue(size_t capacity, size_t max_batch) : max_batch_(max_batch), ring_(capacity) {}

  // Moves `span` into the queue and returns true. If the queue is full or closed, returns false and leaves `span` as it
  // is. Does not allocate, and wakes the consumer only when a batch is full.
  bool Push(std::unique_ptr<SpanData>& span);

  // Waits until a batch is full, the queue is closed, or `max_delay` is over. Then returns the oldest spans, up to a
  // batch; there may be none. Only one thread may call it.
  std::vector<std::unique_ptr<SpanData>> Take(std::chrono::nanoseconds max_delay);

  // From now on Take returns at once and Push refuses spans.
  void Close();

  bool is_closed() const {
    const MutexLock lock(&mutex_);
    return is_closed_;
  }

 private:
  const size_t max_batch_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::vector<std::unique_ptr<SpanData>> ring_ ABSL_GUARDED_BY(mutex_);
  size_t first_ ABSL_GUARDED_BY(mutex_) = 0;  // index of the oldest
  size_t size_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace maxsim::tracing
