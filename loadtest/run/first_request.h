// Sends one request before the clock starts, because a request that is wrong, or too large for the server, would fail a
// million times in the run.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/call_queue.h"
#include "loadtest/run/workload.h"

namespace maxsim::loadtest {

struct FirstRequestOptions {
  absl::Duration timeout = absl::Seconds(10);  // bound on one attempt
  // How long to retry if the server is busy. Other clients may keep it busy for a time.
  absl::Duration busy_time_limit = absl::Seconds(30);
};

struct FirstRequestResult {
  // OK if the answer is right. Otherwise the server's status, or an error about its wrong answer. RESOURCE_EXHAUSTED
  // also if the server was still busy at the end of `busy_time_limit`; CANCELLED if `stop` was set meanwhile.
  absl::Status status;
  int64_t sent = 0, rejected = 0;  // attempts
};

// Sends `request` and waits for the answer. When the server says that it can take the request later (RESOURCE_EXHAUSTED
// with RetryInfo), sends it again after the delay that the server asks for. `on_busy` is called with the first such
// answer. Nothing else may use `queue` meanwhile.
FirstRequestResult SendFirstRequest(const FirstRequestOptions& options, const PreparedRequest& request,
                                    client::CallQueue& queue, const std::function<void(const absl::Status&)>& on_busy,
                                    const std::atomic<bool>& stop);

}  // namespace maxsim::loadtest
