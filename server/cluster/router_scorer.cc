#include "server/cluster/router_scorer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/saturating.h"
#include "server/cluster/fresh_view.h"
#include "server/cluster/groups/rpcs.h"
#include "server/cluster/parts/check_rerank.h"
#include "server/cluster/parts/group_members.h"
#include "server/cluster/parts/merge.h"
#include "server/cluster/parts/restriction.h"
#include "server/cluster/parts/scatter.h"
#include "server/cluster/parts/split.h"

namespace maxsim::cluster {

// A rerank call and the state of its current attempt.
struct RouterScorer::Scoring {
  std::unique_ptr<service::RerankCall> call;
  int num_attempts = 0;
  std::shared_ptr<const CollectionView> collection;  // null if the request names none
  SplitRequest split;
  // Used while the members of the result's groups are fetched.
  std::vector<MembersRequest> members;
  std::vector<absl::StatusOr<v1::RerankResponse>> answers;
};

absl::StatusOr<service::TextTarget> RouterScorer::TargetOf(const v1::RerankRequest& request) const {
  const auto found = deps_.membership->view()->Find(request.collection());
  if (!found.ok()) return found.status();
  const v1::CollectionInfo& info = (*found)->info;
  service::TextTarget target{(*found)->name, static_cast<int32_t>(info.dim()), std::nullopt};
  if (info.has_encoder()) {
    target.encoder = {.model = info.encoder().model(),
                      .fingerprint = info.encoder().fingerprint(),
                      .dim = static_cast<int32_t>(info.encoder().dim())};
  }
  return target;
}

GroupCallOptions RouterScorer::OptionsOf(const service::CallContext& context, bool is_rerank) const {
  return {.deadline = DeadlineOfGroups(context.deadline, MonotonicNow(), deps_.timeout),
          .may_hedge = is_rerank,
          .full_for_all = is_rerank,
          .cancelled = context.cancelled,
          .span = context.span.AsParent()};
}

void RouterScorer::Answer(std::unique_ptr<service::RerankCall> call) {
  std::shared_ptr<Scoring> scoring;
  absl::Status status = Guarded([&] {
    scoring = std::make_shared<Scoring>();
    return absl::OkStatus();
  });
  if (!status.ok()) return call->Refuse(Rejection::kMemory, std::move(status));
  scoring->call = std::move(call);
  Ask(std::move(scoring));
}

void RouterScorer::Ask(std::shared_ptr<Scoring> scoring) {
  ++scoring->num_attempts;
  service::RerankCall& call = *scoring->call;
  std::vector<CallTarget> targets;
  std::vector<std::shared_ptr<const v1::RerankRequest>> requests;
  std::vector<AnswerCheck<v1::RerankResponse>> checks;
  absl::Status status = Guarded([&] {
    const std::shared_ptr<const View> view = deps_.membership->view();
    const uint64_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
    scoring->collection = nullptr;
    if (!call.request.collection().empty()) {
      auto collection = view->Find(call.request.collection());
      if (!collection.ok()) return collection.status();
      scoring->collection = *std::move(collection);
    }
    absl::StatusOr<SplitRequest> split = SplitRerank(call.request, scoring->collection.get(), deps_.limits, turn);
    if (!split.ok()) return split.status();
    scoring->split = *std::move(split);
    for (const PartRequest& part : scoring->split.parts) {
      requests.push_back(part.request);
      checks.emplace_back([request = part.request, asked = AskedPartOf(part, scoring->collection.get())](
                              const v1::RerankResponse& answer) { return CheckRerankAnswer(*request, asked, answer); });
      if (part.part != PartRequest::kAnyGroup) {
        targets.push_back(scoring->collection->parts[part.part].target);
        continue;
      }
      absl::StatusOr<CallTarget> any = view->AnyGroup(turn);
      if (!any.ok()) return any.status();
      targets.push_back(*std::move(any));
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return call.Refuse(RejectionOf(status), status);
  Scatter<v1::RerankRequest, v1::RerankResponse>(
      deps_.environment, std::move(targets), std::move(requests), std::move(checks),
      OptionsOf(call.context, /*is_rerank=*/true), kRerankRpc,
      [this, scoring = std::move(scoring)](std::vector<absl::StatusOr<v1::RerankResponse>> answers) {
        Gather(scoring, std::move(answers));
      });
}

bool RouterScorer::OthersMayAnswer(const Scoring& scoring,
                                   const std::vector<absl::StatusOr<v1::RerankResponse>>& answers) {
  for (size_t i = 0; i < answers.size(); ++i) {
    // After a timeout no time is left for another attempt.
    if (answers[i].ok() || !IsLost(answers[i].status()) || absl::IsDeadlineExceeded(answers[i].status())) continue;
    const PartRequest& part = scoring.split.parts[i];
    if (part.part == PartRequest::kAnyGroup) return true;
    const CallTarget& target = scoring.collection->parts[part.part].target;
    if (target.replicas.size() < target.group->replicas().size()) return true;
    const bool has_inline = std::any_of(part.queries.begin(), part.queries.end(), [&](int query) {
      return scoring.split.queries[static_cast<size_t>(query)].kind == SplitRequest::Query::Kind::kInline;
    });
    if (has_inline) return true;
  }
  return false;
}

void RouterScorer::Gather(const std::shared_ptr<Scoring>& scoring,
                          std::vector<absl::StatusOr<v1::RerankResponse>> answers) {
  Charge(*scoring->call, answers);
  // Asks again if the groups have changed to another generation or other slots, or if a replica that was not asked may
  // answer.
  const bool others_may_answer = scoring->num_attempts == 1 && OthersMayAnswer(*scoring, answers);
  if ((NeedFreshView(answers) || others_may_answer) && AskAgain(scoring)) return;
  if (!AskForMembers(scoring, answers)) Finish(*scoring, std::move(answers));
}

void RouterScorer::Charge(service::RerankCall& call,
                          const std::vector<absl::StatusOr<v1::RerankResponse>>& answers) const {
  uint64_t num_pairs = 0;
  for (const absl::StatusOr<v1::RerankResponse>& answer : answers) {
    if (answer.ok()) num_pairs = SaturatingAdd(num_pairs, answer->token_pairs());
  }
  // Limits the charge: a wrong number from a group must not use up a tenant's quota for years.
  call.Charge(std::min(num_pairs, deps_.limits.max_request_work), /*is_certain=*/true).IgnoreError();
}

bool RouterScorer::AskAgain(const std::shared_ptr<Scoring>& scoring) {
  service::RerankCall& call = *scoring->call;
  if (call.request.generation() != 0 || !MayAskAgain(scoring->num_attempts, call.context)) return false;
  absl::Status returned = Guarded([&] {
    ReturnInlineDocuments(scoring->split, call.request);
    return absl::OkStatus();
  });
  if (!returned.ok()) {
    call.Refuse(Rejection::kMemory, std::move(returned));
    return true;
  }
  AskWithFreshView(*deps_.membership, [this, scoring] { Ask(scoring); });
  return true;
}

bool RouterScorer::AskForMembers(const std::shared_ptr<Scoring>& scoring,
                                 std::vector<absl::StatusOr<v1::RerankResponse>>& answers) {
  service::RerankCall& call = *scoring->call;
  std::vector<CallTarget> targets;
  std::vector<std::shared_ptr<const v1::RerankRequest>> requests;
  std::vector<AnswerCheck<v1::RerankResponse>> checks;
  absl::Status status = Guarded([&] {
    scoring->members = FindMissingMembers(scoring->split, answers);
    for (const MembersRequest& one : scoring->members) {
      const PartRequest& part = scoring->split.parts[one.part_request];
      targets.push_back(scoring->collection->parts[part.part].target);
      requests.push_back(one.request);
      checks.emplace_back([request = one.request, asked = AskedPartOf(part, scoring->collection.get())](
                              const v1::RerankResponse& answer) { return CheckRerankAnswer(*request, asked, answer); });
    }
    return absl::OkStatus();
  });
  if (!status.ok()) {
    call.Refuse(Rejection::kMemory, std::move(status));
    return true;
  }
  if (scoring->members.empty()) return false;
  scoring->answers = std::move(answers);
  Scatter<v1::RerankRequest, v1::RerankResponse>(
      deps_.environment, std::move(targets), std::move(requests), std::move(checks),
      OptionsOf(call.context, /*is_rerank=*/true), kRerankRpc,
      [this, scoring](std::vector<absl::StatusOr<v1::RerankResponse>> members) {
        Charge(*scoring->call, members);
        if (NeedFreshView(members) && AskAgain(scoring)) return;
        absl::Status replaced = Guarded([&] {
          ReplaceResults(scoring->members, std::move(members), scoring->answers);
          return absl::OkStatus();
        });
        if (!replaced.ok()) return scoring->call->Refuse(Rejection::kMemory, std::move(replaced));
        Finish(*scoring, std::move(scoring->answers));
      });
  return true;
}

void RouterScorer::Finish(Scoring& scoring, std::vector<absl::StatusOr<v1::RerankResponse>> answers) {
  service::RerankCall& call = *scoring.call;
  absl::StatusOr<v1::RerankResponse> response = Guarded([&] {
    absl::StatusOr<v1::RerankResponse> merged =
        MergeRerank(scoring.split, scoring.collection.get(), std::move(answers), deps_.limits);
    if (merged.ok()) service::AddTextFacts(call.texts, call.request.return_alignments(), *merged);
    return merged;
  });
  if (!response.ok()) return call.Refuse(RejectionOf(response.status()), response.status());
  call.Finish(std::move(response));
}

struct RouterScorer::Explaining {
  std::unique_ptr<service::ExplainCall> call;
  int num_attempts = 0;
};

void RouterScorer::Answer(std::unique_ptr<service::ExplainCall> call) {
  std::shared_ptr<Explaining> explaining;
  absl::Status status = Guarded([&] {
    explaining = std::make_shared<Explaining>();
    return absl::OkStatus();
  });
  if (!status.ok()) return call->Finish(std::move(status));
  explaining->call = std::move(call);
  Ask(explaining);
}

void RouterScorer::Ask(const std::shared_ptr<Explaining>& explaining) {
  ++explaining->num_attempts;
  service::ExplainCall& call = *explaining->call;
  CallTarget target;
  std::shared_ptr<v1::RerankRequest> request;
  absl::Status status = Guarded([&] {
    const auto collection = deps_.membership->view()->Find(call.request.collection());
    if (!collection.ok()) return collection.status();
    request = std::make_shared<v1::RerankRequest>(call.request);
    // Splitting the request finds the part that holds the id. Explain requests have no inline documents.
    const absl::StatusOr<SplitRequest> split = SplitRerank(call.request, collection->get(), deps_.limits, 0);
    if (!split.ok()) return split.status();
    const CollectionView::Part& part = (*collection)->parts[split->parts.front().part];
    RestrictToSlots(part, *request);
    target = part.target;
    return absl::OkStatus();
  });
  if (!status.ok()) return call.Finish(std::move(status));
  const GroupCallOptions options = OptionsOf(call.context, /*is_rerank=*/false);
  CallGroup<v1::RerankRequest, v1::ExplainResponse>(
      deps_.environment, std::move(target), options, kExplainRpc, request,
      [request](const v1::ExplainResponse& answer) { return CheckExplainAnswer(*request, answer); },
      [this, explaining](absl::StatusOr<v1::ExplainResponse> answer) {
        service::ExplainCall& asked = *explaining->call;
        if (!IsOtherView(answer.status())) return asked.Finish(std::move(answer));
        if (asked.request.generation() == 0 && MayAskAgain(explaining->num_attempts, asked.context)) {
          return AskWithFreshView(*deps_.membership, [this, explaining] { Ask(explaining); });
        }
        asked.Finish(absl::UnavailableError(answer.status().message()));
      });
}

Rejection RouterScorer::RejectionOf(const absl::Status& status) const {
  return absl::IsUnavailable(status) ? Rejection::kGroup : Scorer::RejectionOf(status);
}

bool RouterScorer::IsServed(const std::string& collection) const {
  // Does not call Find: while a group does not answer, Find returns UNAVAILABLE even for a name that no server has.
  return deps_.membership->view()->collections().contains(collection);
}

std::vector<std::string> RouterScorer::Names() const {
  std::vector<std::string> names;
  const std::shared_ptr<const View> view = deps_.membership->view();
  for (const auto& [name, collection] : view->collections()) names.push_back(name);
  return names;
}

}  // namespace maxsim::cluster
