// Limits how many calls of one kind are in progress at a time.
#pragma once

#include <atomic>
#include <memory>

namespace maxsim::service {

// A place is the permission to run one call. A place may outlive this object: a service releases the place of an HTTP
// call only after it has answered the call, and the HTTP server may be gone by then. Thread-safe.
class ConcurrencyLimit {
 public:
  explicit ConcurrencyLimit(int limit) : limit_(limit), num_free_(std::make_shared<std::atomic<int>>(limit)) {}

  // Returns a place, which is freed when its last copy is destroyed; null if none is free.
  std::shared_ptr<const void> TryTake() {
    if (num_free_->fetch_sub(1) > 0) {
      return {num_free_.get(), [num_free = num_free_](const void*) { ++*num_free; }};
    }
    ++*num_free_;
    return nullptr;
  }

  int limit() const { return limit_; }

 private:
  const int limit_;
  const std::shared_ptr<std::atomic<int>> num_free_;
};

}  // namespace maxsim::service
