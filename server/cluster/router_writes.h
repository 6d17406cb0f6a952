// Helpers that several calls of RouterDocuments use. Internal to its source files.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "server/cluster/fresh_view.h"
#include "server/cluster/groups/answer_fault.h"
#include "server/cluster/groups/membership.h"
#include "server/service/call/call.h"
#include "server/service/tenants/caller.h"

namespace maxsim::cluster {

// The longest time in which a write may begin at a replica. It is longer than a write that succeeds normally takes:
// with the default values of live.max_queue_time and nats.timeout, a replica gives up after 10 s.
inline constexpr absl::Duration kMaxWriteTime = absl::Seconds(10);

// Returns whether a call is a tenant's. Its errors must not name groups. The gate in front of the router
// (server/service/tenant_gate) replaces the messages of errors with the codes that lost groups have, but not of others.
template <typename Response>
bool IsOfTenant(const service::Call<Response>& call) {
  return call.context.caller.tenant() != nullptr;
}

// Returns until when a write with this deadline may begin. Times are of MonotonicNow().
inline absl::Time ExpiryOf(absl::Time deadline) { return std::min(deadline, MonotonicNow() + kMaxWriteTime); }

// Returns one check per request. It calls `check` with that request and its answer.
template <typename Response, typename Request, typename Check>
std::vector<AnswerCheck<Response>> ChecksOf(const std::vector<std::shared_ptr<const Request>>& requests, Check check) {
  std::vector<AnswerCheck<Response>> checks;
  checks.reserve(requests.size());
  for (const std::shared_ptr<const Request>& request : requests) {
    checks.emplace_back([request, check](const Response& answer) { return check(*request, answer); });
  }
  return checks;
}

// Polls all replicas, without waiting for it, if an answer says that the router's view is out of date (IsOtherView). A
// client that repeats its call some milliseconds later then meets a fresh view.
template <typename Response>
void RefreshAfter(const std::vector<absl::StatusOr<Response>>& answers, Membership& membership) {
  if (NeedFreshView(answers)) membership.RefreshThen([] {});
}

}  // namespace maxsim::cluster
