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

  // Makes the stream take no more requests, and end with UNAVAILABLE when the requests that it has taken are answered.
  // May be called on any thread.
  virtual void Drain() = 0;
};

// The class is thread-safe.
class StreamRegistry {
 public:
  // Adds a stream. If this returns true (draining), it must end at once.
  bool Add(const std::shared_ptr<DrainableStream>& stream);
  void Remove(const std::shared_ptr<DrainableStream>& stream);
  // Tells every open stream to end. Add tells later ones.
  void Drain();

 private:
  Mutex mutex_;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_set<std::shared_ptr<DrainableStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::rpc
