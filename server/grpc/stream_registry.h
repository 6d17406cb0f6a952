// The open streams of a service, so that they can be ended when the server stops.
#pragma once

#include <memory>
#include <unordered_set>

#include "base/mutex.h"

namespace maxsim::rpc {

// A stream that can be told to end.
class DrainableStream {
 public:
  virtual ~DrainableStream() = default;

  // Takes no more requests, and ends with UNAVAILABLE once those it took are answered. From any thread.
  virtual void Drain() = 0;
};

// The class is thread-safe.
class StreamRegistry {
 public:
  // True when the registry is draining: the stream should end at once.
  bool Add(const std::shared_ptr<DrainableStream>& stream);
  void Remove(const std::shared_ptr<DrainableStream>& stream);
  // Tells every stream, and those that come later, to end.
  void Drain();

 private:
  Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_set<std::shared_ptr<DrainableStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::rpc
