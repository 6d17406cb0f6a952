// Bounds how many calls of one kind are in progress. It is internal to server/http.
#pragma once

#include <atomic>
#include <memory>

namespace maxsim::http {

// Thread-safe. Must outlive the places that it has given.
class Places {
 public:
  explicit Places(int count) : num_free_(count) {}

  // Returns a place, which is free again when the last copy goes; null where none is free.
  std::shared_ptr<const void> TryTake() {
    if (num_free_.fetch_sub(1) > 0) return {this, [this](const void*) { ++num_free_; }};
    ++num_free_;
    return nullptr;
  }

 private:
  std::atomic<int> num_free_;
};

}  // namespace maxsim::http
