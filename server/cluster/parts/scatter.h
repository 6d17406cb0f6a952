// Sends the parts of a call to their groups and gathers the answers.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/cluster/groups/group_call.h"

namespace maxsim::cluster {

// Returns the deadline for the calls to the groups. It is a little earlier than the client's `deadline`, so that the
// router's answer or error still reaches the client in time. For a call without a deadline, it is `default_timeout`
// from `now`. Times are of MonotonicNow().
absl::Time DeadlineOfGroups(absl::Time deadline, absl::Time now, absl::Duration default_timeout);

// Calls `rpc` on every target with its own request and, when all have answered, calls `done` once with the answers in
// order. checks[i] checks the answers of targets[i], so each answer that is OK has passed its check. `targets` must
// not be empty.
template <typename Request, typename Response>
void Scatter(const CallEnvironment& environment, std::vector<CallTarget> targets,
             std::vector<std::shared_ptr<const Request>> requests, std::vector<AnswerCheck<Response>> checks,
             const GroupCallOptions& options, Rpc<Request, Response> rpc,
             absl::AnyInvocable<void(std::vector<absl::StatusOr<Response>>)> done) {
  struct Gathered {
    std::vector<absl::StatusOr<Response>> answers;
    std::atomic<size_t> num_left;
    absl::AnyInvocable<void(std::vector<absl::StatusOr<Response>>)> done;
  };
  auto gathered = std::make_shared<Gathered>();
  const size_t count = targets.size();
  for (size_t i = 0; i < count; ++i) gathered->answers.emplace_back(absl::UnavailableError("no answer"));
  gathered->num_left = count;
  gathered->done = std::move(done);
  for (size_t i = 0; i < count; ++i) {
    CallGroup<Request, Response>(environment, std::move(targets[i]), options, rpc, std::move(requests[i]),
                                 std::move(checks[i]), [gathered, i](absl::StatusOr<Response> answer) {
                                   gathered->answers[i] = std::move(answer);
                                   if (gathered->num_left.fetch_sub(1) > 1) return;
                                   gathered->done(std::move(gathered->answers));
                                 });
  }
}

}  // namespace maxsim::cluster
