#include "server/service/local_scorer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "boost/asio/post.hpp"
#include "boost/asio/thread_pool.hpp"
#include "client/status.h"
#include "kernels/limits.h"
#include "server/service/call/status.h"
#include "server/service/grouped_rounds.h"
#include "server/service/request/translate.h"

namespace maxsim::service {
namespace {

// The number of threads that prepare the next rounds (jobs) of calls with group_by. Preparing one takes at most some
// milliseconds.
constexpr int kNumGroupingThreads = 2;

// Drain waits in steps of this length: its deadline may be infinite.
constexpr absl::Duration kLongestWait = absl::Seconds(1);

}  // namespace

// A call with group_by in progress. Drain waits until all of them are destroyed.
class LocalScorer::GroupedCall {
 public:
  GroupedCall(LocalScorer* scorer, Translated translated) : rounds(std::move(translated)), scorer_(scorer) {
    MutexLock lock(&scorer_->grouped_mutex_);
    ++scorer_->num_grouped_;
  }
  ~GroupedCall() {
    call = nullptr;  // answered
    MutexLock lock(&scorer_->grouped_mutex_);
    if (--scorer_->num_grouped_ == 0) scorer_->grouped_changed_.NotifyAll();
  }
  GroupedCall(const GroupedCall&) = delete;
  GroupedCall& operator=(const GroupedCall&) = delete;

  GroupedRounds rounds;
  std::unique_ptr<RerankCall> call;

 private:
  LocalScorer* const scorer_;
};

LocalScorer::LocalScorer(const store::CollectionStore* store, batching::Scheduler* scheduler, Metrics* metrics,
                         const RequestLimits& limits)
    : store_(store), scheduler_(scheduler), metrics_(metrics), limits_(limits) {}

LocalScorer::~LocalScorer() {
  Drain(absl::InfiniteFuture());
  if (grouping_threads_ != nullptr) grouping_threads_->join();
}

void LocalScorer::Drain(absl::Time deadline) {
  MutexLock lock(&grouped_mutex_);
  for (absl::Duration left; num_grouped_ > 0 && (left = deadline - MonotonicNow()) > absl::ZeroDuration();) {
    grouped_changed_.WaitFor(lock, absl::ToChronoNanoseconds(std::min(left, kLongestWait)));
  }
}

absl::StatusOr<TextTarget> LocalScorer::TargetOf(const v1::RerankRequest& request) const {
  const auto collection = store_->Find(request.collection());
  if (!collection.ok()) return collection.status();
  if (absl::Status status = CheckSnapshotFor(request, **collection); !status.ok()) return status;
  return TextTarget::Of(**collection);
}

absl::StatusOr<std::shared_ptr<const store::Collection>> LocalScorer::CollectionFor(const v1::RerankRequest& request) {
  if (!request.collection().empty()) return store_->Find(request.collection());
  const uint32_t dim = request.queries(0).tokens().dim();
  if (dim < static_cast<uint32_t>(kMinDim) || dim > static_cast<uint32_t>(limits_.max_dim)) {
    return InvalidField("queries[0].tokens.dim",
                        absl::StrCat("is ", dim, "; must be ", kMinDim, " to ", limits_.max_dim,
                                     " (engine.max_dim) without a collection"),
                        {limits_.max_dim, dim, "engine.max_dim"});
  }
  return inline_collections_.For(static_cast<int32_t>(dim));
}

void LocalScorer::Answer(std::unique_ptr<RerankCall> call) {
  const v1::RerankRequest request = std::move(call->request);  // freed on return: a queued call does not need it
  absl::StatusOr<Translated> translated = Guarded([&]() -> absl::StatusOr<Translated> {
    auto collection = CollectionFor(request);
    if (!collection.ok()) return collection.status();
    return Translate(request, *std::move(collection), limits_,
                     [&] { return CheckAwaited(call->context, kWhileFiltering); });
  });
  // Count this rejection here: the scheduler counts only its own.
  if (!translated.ok()) return call->Refuse(RejectionOf(translated.status()), translated.status());
  if (translated->answer.grouping != nullptr && translated->job != nullptr) {
    return AnswerGrouped(std::move(call), *std::move(translated));
  }
  PendingAnswer& answer = call->answer;
  answer = std::move(translated->answer);
  answer.texts = std::move(call->texts);
  std::unique_ptr<engine::Job> job = std::move(translated->job);
  if (job == nullptr) return call->Finish(Build(answer, engine::JobResult()));
  if (absl::Status charged = call->Charge(job->work, /*is_certain=*/false); !charged.ok()) {
    return call->Refuse(Rejection::kTenantQuota, std::move(charged));
  }
  SetCaller(call->context, answer, *job);
  if (call->context.span.is_recording()) call->queued = MonotonicNow();
  const bool may_be_held_up = call->context.may_be_held_up;
  // The callback has only two pointers, so that no memory is allocated for it.
  job->done = [this, call = std::move(call)](absl::StatusOr<engine::JobResult> result) mutable {
    if (!result.ok()) {
      if (absl::IsResourceExhausted(result.status())) call->ReturnCharge();
      return call->Finish(WithRetryDelay(result.status()));
    }
    absl::Status size = CheckAnswerSize(call->answer, *result, limits_);
    if (!size.ok()) return call->Finish(std::move(size));
    call->Finish(Build(call->answer, *result));
  };
  absl::Status status =
      Guarded([&] { return may_be_held_up ? scheduler_->SubmitOrScore(job) : scheduler_->Submit(job); });
  if (!status.ok() && job != nullptr) job->done(std::move(status));
}

void LocalScorer::SetCaller(const CallContext& context, const PendingAnswer& answer, engine::Job& job) {
  job.bytes = HeldBytes(job, answer);
  job.deadline = context.deadline;
  job.client = context.client;
  job.cancelled = context.cancelled;
}

absl::Status LocalScorer::WithRetryDelay(absl::Status status) const {
  if (batching::TakeQueueFullMark(status)) client::SetRetryAfter(scheduler_->RetryDelay(), status);
  return status;
}

void LocalScorer::AnswerGrouped(std::unique_ptr<RerankCall> call, Translated translated) {
  std::shared_ptr<GroupedCall> grouped;
  translated.answer.texts = std::move(call->texts);
  absl::Status status = Guarded([&] {
    std::call_once(grouping_threads_made_,
                   [this] { grouping_threads_ = std::make_unique<boost::asio::thread_pool>(kNumGroupingThreads); });
    grouped = std::make_shared<GroupedCall>(this, std::move(translated));
    return absl::OkStatus();
  });
  if (!status.ok()) return call->Refuse(Rejection::kMemory, std::move(status));
  grouped->call = std::move(call);
  if (grouped->call->context.span.is_recording()) grouped->call->queued = MonotonicNow();
  NextRound(std::move(grouped));
}

void LocalScorer::NextRound(std::shared_ptr<GroupedCall> grouped) {
  RerankCall& call = *grouped->call;
  absl::StatusOr<std::unique_ptr<engine::Job>> next =
      Guarded([&] { return grouped->rounds.Next([&] { return CheckAwaited(call.context, kWhileFiltering); }); });
  if (!next.ok()) return call.Refuse(RejectionOf(next.status()), next.status());
  const GroupedRounds& rounds = grouped->rounds;
  if (*next == nullptr) {
    absl::Status size = CheckAnswerSize(rounds.answer(), rounds.result(), limits_);
    if (!size.ok()) return call.Finish(std::move(size));
    return call.Finish(Build(rounds.answer(), rounds.result()));
  }
  std::unique_ptr<engine::Job> job = *std::move(next);
  // Charge the tenant, but ignore the quota's error: a call that has begun is not refused, and its number of rounds was
  // not known.
  call.Charge(job->work, /*is_certain=*/true).IgnoreError();
  SetCaller(call.context, rounds.answer(), *job);
  job->bytes += rounds.held_bytes();
  job->done = [this, grouped = std::move(grouped)](absl::StatusOr<engine::JobResult> result) mutable {
    if (!result.ok()) return grouped->call->Finish(WithRetryDelay(result.status()));
    // This thread belongs to the scheduler, so another thread prepares the next round. If there is no memory to post
    // the task, the call is destroyed, and its destructor answers with the error.
    Guarded([&] {
      boost::asio::post(*grouping_threads_,
                        [this, grouped = std::move(grouped), result = *std::move(result)]() mutable {
                          absl::Status taken = Guarded([&] { return grouped->rounds.Take(std::move(result)); });
                          if (!taken.ok()) return grouped->call->Refuse(RejectionOf(taken), taken);
                          // If NextRound throws because memory ran out, the call is destroyed, and its destructor
                          // answers with the error.
                          Guarded([&] {
                            NextRound(std::move(grouped));
                            return absl::OkStatus();
                          }).IgnoreError();
                        });
      return absl::OkStatus();
    }).IgnoreError();
  };
  absl::Status status = Guarded([&] { return scheduler_->Submit(job); });
  if (!status.ok() && job != nullptr) job->done(std::move(status));
}

absl::StatusOr<v1::RerankResponse> LocalScorer::Build(const PendingAnswer& answer, const engine::JobResult& result) {
  absl::StatusOr<v1::RerankResponse> response =
      Guarded([&]() -> absl::StatusOr<v1::RerankResponse> { return BuildResponse(answer, result); });
  if (!response.ok()) metrics_->CountRejection(Rejection::kMemory);
  return response;
}

void LocalScorer::Answer(std::unique_ptr<ExplainCall> call) {
  call->Finish(Guarded([&]() -> absl::StatusOr<v1::ExplainResponse> {
    const auto collection = store_->Find(call->request.collection());
    if (!collection.ok()) return collection.status();
    return ComputeExplanation(call->request, *collection, limits_, call->context.deadline, &explanations_);
  }));
}

Rejection LocalScorer::RejectionOf(const absl::Status& status) const {
  return absl::IsUnavailable(status) ? Rejection::kLoading : Scorer::RejectionOf(status);
}

bool LocalScorer::IsServed(const std::string& collection) const {
  return !absl::IsNotFound(store_->Find(collection).status());
}

std::vector<std::string> LocalScorer::Names() const {
  std::vector<std::string> names;
  for (const store::CollectionStatus& status : store_->List()) names.push_back(status.name);
  return names;
}

}  // namespace maxsim::service
