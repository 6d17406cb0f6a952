// The request that is sent before the clock starts: one that is wrong, or too large for the server, would fail a
// million times.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/call_queue.h"
#include "loadtest/workload.h"

namespace maxsim::loadtest {

struct FirstRequestOptions {
  absl::Duration timeout = absl::Seconds(10);  // of one attempt
  // A server that is busy is asked again for this long: others may be what it is busy with.
  absl::Duration busy_time_limit = absl::Seconds(30);
};

struct FirstRequestResult {
  // OK: answered, and right. The server's status, or what is wrong with its answer; RESOURCE_EXHAUSTED too when it was
  // still busy at the end of `busy_time_limit`. CANCELLED: `stop` was set while it was waited for.
  absl::Status status;
  int64_t sent = 0, rejected = 0;
};

// Sends `request`, and again, when the server says that it could take it later (RESOURCE_EXHAUSTED with RetryInfo):
// after the delay that it asks for. `on_busy` hears of the first such answer. Nothing else may use `queue` meanwhile.
FirstRequestResult SendFirstRequest(const FirstRequestOptions& options, const PreparedRequest& request,
                                    client::CallQueue& queue, const std::function<void(const absl::Status&)>& on_busy,
                                    const std::atomic<bool>& stop);

}  // namespace maxsim::loadtest
