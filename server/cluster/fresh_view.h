// Repeats a call if the router's view (what its servers last reported) is out of date, because servers have other
// generations or slots by now. The view is renewed first. Internal to the services of a router.
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

// Polls all replicas, and then calls `ask` on another thread (Membership::RefreshThen). If `ask` runs out of memory,
// the error is ignored: the call that `ask` owns must then answer in its destructor, as service::Call does.
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
