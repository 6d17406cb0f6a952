// Helpers that several calls of RouterDocuments use. Internal to its source files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "client/error_details.h"
#include "server/cluster/fresh_view.h"
#include "server/cluster/groups/answer_fault.h"
#include "server/cluster/groups/call_outcome.h"
#include "server/cluster/groups/membership.h"
#include "server/service/call/call.h"
#include "server/service/tenants/caller.h"

namespace maxsim::cluster {

// A replica that has not begun a write after this time must not begin it. A write that succeeds is normally faster:
// with the default values of live.max_queue_time and nats.timeout, a replica gives up after 10 s.
inline constexpr absl::Duration kMaxWriteTime = absl::Seconds(10);

// Returns whether a tenant made the call. If so, the router must not name groups in errors about the request, such as
// INVALID_ARGUMENT and NOT_FOUND: the gate in front of the router (server/service/tenant_gate) passes on their
// messages. The gate replaces the messages of other errors, such as UNAVAILABLE.
template <typename Response>
bool IsOfTenant(const service::Call<Response>& call) {
  return call.context.caller.tenant() != nullptr;
}

// Returns until when a write with this deadline may begin. Times are of MonotonicNow().
inline absl::Time ExpiryOf(absl::Time deadline) { return std::min(deadline, MonotonicNow() + kMaxWriteTime); }

// Returns one check per request, which calls `check` with this request and the answer to it.
template <typename Response, typename Request, typename Check>
std::vector<AnswerCheck<Response>> ChecksOf(const std::vector<std::shared_ptr<const Request>>& requests, Check check) {
  std::vector<AnswerCheck<Response>> checks;
  checks.reserve(requests.size());
  for (const std::shared_ptr<const Request>& request : requests) {
    checks.emplace_back([request, check](const Response& answer) { return check(*request, answer); });
  }
  return checks;
}

// The groups that a write concerns: those that have carried out their part, and those that failed.
struct GroupOutcomes {
  std::vector<std::string> done;
  std::vector<std::string> failed;
  std::optional<size_t> first_failed = {};  // index of the first part that failed
  bool failed_wrote_nothing = true;         // all that failed certainly wrote nothing (IsSafeToRepeat)
};

// `groups` are the names of the groups that were asked, one for each answer.
template <typename Response>
GroupOutcomes OutcomesOf(const std::vector<absl::StatusOr<Response>>& answers, const std::vector<std::string>& groups) {
  GroupOutcomes outcomes;
  for (size_t idx = 0; idx < answers.size(); ++idx) {
    (answers[idx].ok() ? outcomes.done : outcomes.failed).push_back(groups[idx]);
    if (answers[idx].ok()) continue;
    if (!outcomes.first_failed.has_value()) outcomes.first_failed = idx;
    outcomes.failed_wrote_nothing &= IsSafeToRepeat(answers[idx].status());
  }
  return outcomes;
}

// Returns the error of the whole write, made from the first error of its parts (WriteErrorOf). Appends to the message:
// `where`, the groups that failed; whether the failed part may have been carried out; and `done`, what the other groups
// did. If `may_have_written`, drops the reason NOTHING_WRITTEN (IsSafeToRepeat), which only holds for one part.
inline absl::Status ErrorOfWhole(const absl::Status& first, std::string_view where, std::string_view done,
                                 bool may_have_written) {
  const std::string_view maybe = absl::IsInternal(first) ? "; it may have been carried out" : "";
  absl::Status status = client::WithAddition(first, Cat(where, maybe, done));
  if (may_have_written && IsSafeToRepeat(status)) status.ErasePayload(client::kErrorInfoTypeUrl);
  return status;
}

// If an answer says that the router's view is out of date (IsOtherView), starts a poll of all replicas, and does not
// wait for it. A client that repeats its call some milliseconds later then meets a fresh view.
template <typename Response>
void RefreshAfter(const std::vector<absl::StatusOr<Response>>& answers, Membership& membership) {
  if (NeedFreshView(answers)) membership.RefreshThen([] {});
}

}  // namespace maxsim::cluster
