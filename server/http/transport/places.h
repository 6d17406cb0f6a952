// Bounds how many calls of one kind are in progress. It is internal to server/http.
#pragma once

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/status.h"

namespace maxsim::http {

// Thread-safe. A place may outlive this object: the service releases a call only after it has answered it, and the HTTP
// server may be gone by then.
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

// A client that finds no place may retry after this delay.
inline constexpr absl::Duration kBusyRetryDelay = absl::Seconds(1);

// Limits calls that may have to wait for an encoder to half of the places. Even if the encoder hangs, the other half
// remains for calls with vectors.
class TextPlaces {
 public:
  explicit TextPlaces(int count) : count_(count), places_(count) {}

  std::shared_ptr<const void> TryTake() { return places_.TryTake(); }

  // Returns the error for a call that got no place.
  absl::Status Full() const {
    absl::Status status = absl::ResourceExhaustedError(
        absl::StrCat("http.max_concurrent_requests: ", count_, " calls with texts are in progress, half of the limit"));
    client::SetRetryAfter(kBusyRetryDelay, status);
    return status;
  }

 private:
  const int count_;
  Places places_;
};

}  // namespace maxsim::http
