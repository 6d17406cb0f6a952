// Answers rerank and explain calls by asking the groups of a cluster.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/cluster/groups/group_call.h"
#include "server/cluster/groups/membership.h"
#include "server/observability/metrics.h"
#include "server/service/call/limits.h"
#include "server/service/scorer.h"

namespace maxsim::cluster {

// Objects that the services of a router share. They must outlive the services and their calls.
struct RouterDependencies {
  Membership* membership = nullptr;
  Metrics* metrics = nullptr;
  CallEnvironment environment;
  service::RequestLimits limits;
  absl::Duration timeout;  // for calls that have no deadline
};

// The class is thread-safe. The router encodes texts itself, so the groups get only vectors.
class RouterScorer : public service::Scorer {
 public:
  explicit RouterScorer(const RouterDependencies& dependencies) : deps_(dependencies) {}

  absl::StatusOr<service::TextTarget> TargetOf(const v1::RerankRequest& request) const override;
  // Asks each group that holds candidates.
  void Answer(std::unique_ptr<service::RerankCall> call) override;
  // Asks the group that has the document.
  void Answer(std::unique_ptr<service::ExplainCall> call) override;
  // UNAVAILABLE means that a group cannot answer: a router has no device that could be lost.
  Rejection RejectionOf(const absl::Status& status) const override;
  bool IsServed(const std::string& collection) const override;
  std::vector<std::string> Names() const override;

 private:
  struct Scoring;
  void Ask(std::shared_ptr<Scoring> scoring);
  // Returns whether a retry with a fresh view may succeed although a group is lost (no replica that was asked answers).
  // It may if the group has other replicas, with another generation: the fresh view may choose that generation for all
  // groups. It also may if the lost group was asked to score inline documents, because any other group can score them.
  static bool OthersMayAnswer(const Scoring& scoring, const std::vector<absl::StatusOr<v1::RerankResponse>>& answers);
  // Refreshes the view and asks all groups again. Returns false, and does nothing, if this was the last attempt, if the
  // deadline has passed, or if the client named a generation.
  bool AskAgain(const std::shared_ptr<Scoring>& scoring);
  // Charges the call for what the groups have scored.
  void Charge(service::RerankCall& call, const std::vector<absl::StatusOr<v1::RerankResponse>>& answers) const;
  void Gather(const std::shared_ptr<Scoring>& scoring, std::vector<absl::StatusOr<v1::RerankResponse>> answers);
  // With group_by, asks the servers again for documents of result groups that their first answers may lack
  // (group_members.h). Returns false if no document can be missing. Otherwise moves from `answers`, and finishes the
  // call later.
  bool AskForMembers(const std::shared_ptr<Scoring>& scoring, std::vector<absl::StatusOr<v1::RerankResponse>>& answers);
  void Finish(Scoring& scoring, std::vector<absl::StatusOr<v1::RerankResponse>> answers);
  // An explain call and the state of its current attempt.
  struct Explaining;
  void Ask(const std::shared_ptr<Explaining>& explaining);
  GroupCallOptions OptionsOf(const service::CallContext& context, bool is_rerank) const;

  const RouterDependencies deps_;
  std::atomic<uint64_t> turn_{0};
};

}  // namespace maxsim::cluster
