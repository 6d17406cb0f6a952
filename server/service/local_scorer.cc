#include "server/service/local_scorer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "client/status.h"
#include "kernels/limits.h"
#include "server/service/call/status.h"
#include "server/service/request/translate.h"

namespace maxsim::service {

absl::StatusOr<TextTarget> LocalScorer::TargetOf(const v1::RerankRequest& request) const {
  const auto collection = store_->Find(request.collection());
  if (!collection.ok()) return collection.status();
  if (absl::Status status = CheckSequence(request.min_sequence(), **collection); !status.ok()) return status;
  if (absl::Status status = CheckGeneration(request.generation(), **collection); !status.ok()) return status;
  return TextTarget::Of(**collection);
}

absl::StatusOr<std::shared_ptr<const store::Collection>> LocalScorer::CollectionFor(const v1::RerankRequest& request) {
  if (!request.collection().empty()) return store_->Find(request.collection());
  const uint32_t dim = request.queries(0).tokens().dim();
  if (dim < static_cast<uint32_t>(kMinDim) || dim > static_cast<uint32_t>(limits_.max_dim)) {
    return InvalidField("queries[0].tokens.dim",
                        absl::StrCat("is ", dim, ", and ", kMinDim, " to ", limits_.max_dim,
                                     " (engine.max_dim) are accepted without a collection"),
                        {limits_.max_dim, dim, "engine.max_dim"});
  }
  return inline_collections_.For(static_cast<int32_t>(dim));
}

void LocalScorer::Answer(std::unique_ptr<RerankCall> call) {
  const v1::RerankRequest request = std::move(call->request);  // freed when this returns: the queue does not hold it
  absl::StatusOr<Translated> translated = Guarded([&]() -> absl::StatusOr<Translated> {
    auto collection = CollectionFor(request);
    if (!collection.ok()) return collection.status();
    return Translate(request, *std::move(collection), limits_,
                     [&] { return CheckAwaited(call->context, kWhileFiltering); });
  });
  // Only what is refused here is counted here; the scheduler counts what it refuses.
  if (!translated.ok()) return call->Refuse(RejectionOf(translated.status()), translated.status());
  PendingAnswer& answer = call->answer;
  answer = std::move(translated->answer);
  answer.texts = std::move(call->texts);
  std::unique_ptr<engine::Job> job = std::move(translated->job);
  if (job == nullptr) return call->Finish(Build(answer, engine::JobResult()));
  job->bytes = HeldBytes(*job, answer);
  job->deadline = call->context.deadline;
  job->client = call->context.client;
  job->cancelled = call->context.cancelled;
  if (call->context.span.is_recording()) call->queued = MonotonicNow();
  const bool may_be_held_up = call->context.may_be_held_up;
  // The callback is small, so that no memory is allocated for it.
  job->done = [this, call = std::move(call)](absl::StatusOr<engine::JobResult> result) mutable {
    if (!result.ok()) {
      absl::Status status = result.status();
      if (batching::TakeQueueFullMark(status)) client::SetRetryAfter(scheduler_->RetryDelay(), status);
      return call->Finish(std::move(status));
    }
    absl::Status size = CheckAnswerSize(call->answer, *result, limits_);
    if (!size.ok()) return call->Finish(std::move(size));
    call->Finish(Build(call->answer, *result));
  };
  absl::Status status =
      Guarded([&] { return may_be_held_up ? scheduler_->SubmitOrScore(job) : scheduler_->Submit(job); });
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
