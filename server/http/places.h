// Bounds how many calls of one kind are in progress. It is internal to server/http.
#pragma once

#include <atomic>
#include <memory>

namespace maxsim::http {

// Thread-safe. A place may outlive this object: the service lets go of a call only after it has answered it, and by
// then the HTTP server may be gone.
class Places {
 public:
  explicit Places(int count) : num_free_(std::make_shared<std::atomic<int>>(count)) {}

  // Returns a place, which is free again when the last copy goes; null where none is free.
  std::shared_ptr<const void> TryTake() {
    if (num_free_->fetch_sub(1) > 0) {
      return {num_free_.get(), [num_free = num_free_](const void*) { ++*num_free; }};
    }
    ++*num_free_;
    return nullptr;
  }

 private:
  const std::shared_ptr<std::atomic<int>> num_free_;
};

}  // namespace maxsim::http
