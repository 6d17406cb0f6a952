// Bounds how many HTTP calls with texts are in progress. It is internal to server/http.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/status.h"
#include "server/service/call/concurrency_limit.h"

namespace maxsim::http {

// A client that finds no place may retry after this delay.
inline constexpr absl::Duration kBusyRetryDelay = absl::Seconds(1);

// Limits how many calls may wait for an encoder at a time; the server passes half of http.max_concurrent_requests. So
// even if the encoder hangs, the other half remains for calls with vectors.
class TextPlaces {
 public:
  explicit TextPlaces(int count) : places_(count, "calls with texts", kBusyRetryDelay) {}

  std::shared_ptr<const void> TryTake() { return places_.TryTake(); }

  // Returns the error for a call that got no place.
  absl::Status Full() const {
    absl::Status status = absl::ResourceExhaustedError(absl::StrCat(
        "http.max_concurrent_requests: ", places_.limit(), " calls with texts are in progress, half of the limit"));
    client::SetRetryAfter(kBusyRetryDelay, status);
    return status;
  }

 private:
  service::ConcurrencyLimit places_;
};

}  // namespace maxsim::http
