// What the calls of RouterDocuments have in common. Internal to its source files.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "server/cluster/groups/answer_fault.h"

namespace maxsim::cluster {

// The longest time in which a write may begin at a replica. It is longer than a write that succeeds normally takes:
// with the default values of live.max_queue_time and nats.timeout, a replica gives up after 10 s.
inline constexpr absl::Duration kMaxWriteTime = absl::Seconds(10);

// Returns until when a write with this deadline may begin. Times are of MonotonicNow().
inline absl::Time ExpiryOf(absl::Time deadline) { return std::min(deadline, MonotonicNow() + kMaxWriteTime); }

// Returns one check per request. It calls `check` with that request and its answer.
template <typename Response, typename Request, typename Check>
std::vector<AnswerCheck<Response>> ChecksOf(const std::vector<std::shared_ptr<const Request>>& requests, Check check) {
  std::vector<AnswerCheck<Response>> checks;
  for (const std::shared_ptr<const Request>& request : requests) {
    checks.emplace_back([request, check](const Response& answer) { return check(*request, answer); });
  }
  return checks;
}

}  // namespace maxsim::cluster
