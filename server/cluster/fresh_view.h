// Repeats a call with a fresh view if the router's view is out of date: servers have other generations or slots than it
// says. Internal to the services of a router.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "server/cluster/groups/call_outcome.h"
#include "server/cluster/groups/membership.h"
#include "server/service/call/call_context.h"

namespace maxsim::cluster {

// The maximum number of times that a call is tried if the groups keep changing to other generations or slots.
inline constexpr int kMaxAttempts = 4;

// Returns whether one of the answers says that the view is out of date (IsOtherView).
template <typename Response>
bool NeedFreshView(const std::vector<absl::StatusOr<Response>>& answers) {
  return std::any_of(answers.begin(), answers.end(),
                     [](const absl::StatusOr<Response>& answer) { return IsOtherView(answer.status()); });
}

// Returns whether a call that has been tried `num_attempts` times may be tried once more before its deadline.
inline bool MayAskAgain(int num_attempts, const service::CallContext& context) {
  return num_attempts < kMaxAttempts && MonotonicNow() < context.deadline;
}

// Polls all replicas, and then calls `ask` with the fresh view on another thread (Membership::RefreshThen). If memory
// runs out, `ask` ends early: the call that it owns must then answer in its destructor, as service::Call does.
template <typename Ask>
void AskWithFreshView(Membership& membership, Ask ask) {
  membership.RefreshThen([ask = std::move(ask)] {
    Guarded([&] {
      ask();
      return absl::OkStatus();
    }).IgnoreError();
  });
}

}  // namespace maxsim::cluster
