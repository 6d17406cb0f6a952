// Limits how many calls of one kind are in progress at a time.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace maxsim::service {

// Limits the number of calls that run at a time. A place is the permission to run one call. It may outlive this object:
// a service releases the place of an HTTP call only after it has answered the call, and the HTTP server may be gone by
// then. Thread-safe.
class ConcurrencyLimit {
 public:
  // `calls` names the calls in the error of Take(), such as "explanations". That error tells clients to retry after
  // `retry_delay`.
  ConcurrencyLimit(int limit, std::string calls, absl::Duration retry_delay)
      : limit_(limit),
        calls_(std::move(calls)),
        retry_delay_(retry_delay),
        num_free_(std::make_shared<std::atomic<int>>(limit)) {}

  // Takes a place until its last copy is destroyed, or returns null if none is free.
  std::shared_ptr<const void> TryTake() {
    if (num_free_->fetch_sub(1) > 0) {
      return {num_free_.get(), [num_free = num_free_](const void*) { ++*num_free; }};
    }
    ++*num_free_;
    return nullptr;
  }

  // Like TryTake, but returns RESOURCE_EXHAUSTED with RetryInfo if none is free.
  absl::StatusOr<std::shared_ptr<const void>> Take();

  int limit() const { return limit_; }

 private:
  const int limit_;
  const std::string calls_;
  const absl::Duration retry_delay_;
  const std::shared_ptr<std::atomic<int>> num_free_;
};

}  // namespace maxsim::service
