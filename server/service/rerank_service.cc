#include "server/service/rerank_service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "client/status.h"
#include "collection/collection_name.h"
#include "kernels/limits.h"
#include "server/service/call/call_record.h"
#include "server/service/call/call_spans.h"
#include "server/service/call/status.h"

namespace maxsim::service {

struct RerankService::Call {
  // A call is answered in any case: one whose job was lost for want of memory, here.
  ~Call() {
    if (done != nullptr) service->Answer(*this, NoMemory());
  }

  RerankService* service = nullptr;
  CallContext context;
  // The id is for the log, and cut where it is too long.
  std::string request_id;
  std::string collection;
  absl::Duration encode_time;  // from the arrival until the texts were encoded
  tracing::Span encode_span;
  absl::Time queued = absl::InfinitePast();  // when the job was submitted; set only where the call is traced
  std::vector<std::vector<std::string>> query_pieces;
  uint64_t encoded_tokens = 0;
  TruncatedTexts truncated;
  PendingAnswer answer;
  Done done;
};

RerankService::RerankService(const store::CollectionStore* store, TextEncoding* texts, batching::Scheduler* scheduler,
                             Metrics* metrics, RequestLimits limits, absl::Duration slow_request)
    : store_(store), texts_(texts), scheduler_(scheduler), metrics_(metrics), limits_(limits), log_(slow_request) {}

absl::Status RerankService::CheckState() const {
  const ServingState state = state_;
  absl::Status status = CheckServing(state);
  if (!status.ok()) {
    metrics_->CountRejection(state == ServingState::kLoading ? Rejection::kLoading : Rejection::kShutdown);
  }
  return status;
}

absl::StatusOr<std::shared_ptr<const store::Collection>> RerankService::CollectionFor(
    const v1::RerankRequest& request) {
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

absl::StatusOr<Translated> RerankService::TranslateFor(const v1::RerankRequest& request) {
  // A request without a collection's name is wrong, not one for a collection that is not there.
  if (absl::Status status = CheckEnvelope(request, limits_); !status.ok()) return status;
  auto collection = CollectionFor(request);
  if (!collection.ok()) return collection.status();
  return Translate(request, *std::move(collection), limits_);
}

absl::Status RerankService::CheckTexts(const v1::RerankRequest& request, Rejection* precondition) const {
  *precondition = Rejection::kGeneration;
  if (absl::Status status = CheckEnvelope(request, limits_); !status.ok()) return status;
  if (request.collection().empty()) {
    *precondition = Rejection::kEncoder;
    return texts_->Check(request, nullptr, limits_);
  }
  const auto collection = store_->Find(request.collection());
  if (!collection.ok()) return collection.status();
  if (absl::Status status = CheckSequence(request.min_sequence(), **collection); !status.ok()) return status;
  if (absl::Status status = CheckGeneration(request.generation(), **collection); !status.ok()) return status;
  *precondition = Rejection::kEncoder;
  const TextTarget target = TextTarget::Of(**collection);
  return texts_->Check(request, &target, limits_);
}

void RerankService::CountRefusal(const absl::Status& status, Rejection precondition) const {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return metrics_->CountRejection(Rejection::kInvalid);
    case absl::StatusCode::kNotFound:
      return metrics_->CountRejection(Rejection::kNotFound);
    case absl::StatusCode::kUnavailable:
      return metrics_->CountRejection(Rejection::kLoading);
    case absl::StatusCode::kFailedPrecondition:
      return metrics_->CountRejection(precondition);
    case absl::StatusCode::kResourceExhausted:
      return metrics_->CountRejection(Rejection::kMemory);
    default:
      return;
  }
}

void RerankService::CountEncoderFailure(const absl::Status& status) const {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return metrics_->CountRejection(Rejection::kInvalid);
    case absl::StatusCode::kDeadlineExceeded:
      return metrics_->CountRejection(Rejection::kDeadline);
    default:
      return metrics_->CountRejection(Rejection::kEncoder);
  }
}

absl::Status RerankService::ChooseCollection(v1::RerankRequest* request) const {
  const auto is_served = [this](const std::string& name) { return !absl::IsNotFound(store_->Find(name).status()); };
  const auto names = [this] {
    std::vector<std::string> all;
    for (const store::CollectionStatus& status : store_->List()) all.push_back(status.name);
    return all;
  };
  return service::ChooseCollection(is_served, names, request);
}

void RerankService::Rerank(v1::RerankRequest request, CallContext context, Done done) {
  auto call = std::make_unique<Call>();
  call->service = this;
  call->context = std::move(context);
  call->request_id = request.request_id().substr(0, static_cast<size_t>(kMaxRequestIdBytes));
  call->collection = request.collection().substr(0, collection::kMaxCollectionNameBytes);
  call->done = std::move(done);
  DescribeRerank(request, call->context.method, call->context.span);
  if (absl::Status status = CheckState(); !status.ok()) return Finish(std::move(call), std::move(status));
  if (HasTexts(request)) return Encode(std::move(call), std::move(request));
  Score(std::move(call), request);
}

void RerankService::Encode(std::unique_ptr<Call> call, v1::RerankRequest request) {
  // What is wrong anyway costs the encoder nothing.
  Rejection precondition = Rejection::kEncoder;
  absl::Status status = Guarded([&] { return CheckTexts(request, &precondition); });
  if (!status.ok()) {
    CountRefusal(status, precondition);
    return Finish(std::move(call), std::move(status));
  }
  const absl::Time deadline = call->context.deadline;
  call->encode_span = StartEncode(call->context.span);
  encoder::TraceHeaders trace = HeadersOf(call->encode_span);
  texts_->Encode(std::move(request), deadline, std::move(trace),
                 [this, call = std::move(call)](absl::StatusOr<EncodedRequest> encoded) mutable {
                   call->encode_time = MonotonicNow() - call->context.arrival;
                   EndCall(encoded.status(), call->encode_span);
                   if (!encoded.ok()) {
                     CountEncoderFailure(encoded.status());
                     return Finish(std::move(call), encoded.status());
                   }
                   // By its first answer the encoder has said who it is.
                   Rejection reason = Rejection::kEncoder;
                   absl::Status same = Guarded([&] { return CheckTexts(encoded->request, &reason); });
                   if (!same.ok()) {
                     CountRefusal(same, reason);
                     return Finish(std::move(call), std::move(same));
                   }
                   call->query_pieces = std::move(encoded->query_pieces);
                   call->encoded_tokens = encoded->num_tokens;
                   call->truncated = std::move(encoded->truncated);
                   Score(std::move(call), encoded->request);
                 });
}

void RerankService::Score(std::unique_ptr<Call> call, const v1::RerankRequest& request) {
  const bool may_be_held_up = call->context.may_be_held_up;
  absl::StatusOr<Translated> translated = Guarded([&] { return TranslateFor(request); });
  // Only what is refused here is counted here; the scheduler counts what it refuses.
  if (!translated.ok()) {
    CountRefusal(translated.status(), Rejection::kGeneration);
    return Finish(std::move(call), translated.status());
  }
  call->answer = std::move(translated->answer);
  call->answer.encoded_tokens = call->encoded_tokens;
  call->answer.truncated = std::move(call->truncated);
  for (size_t i = 0; i < call->query_pieces.size(); ++i) {
    call->answer.queries[i].pieces = std::move(call->query_pieces[i]);
  }
  std::unique_ptr<engine::Job> job = std::move(translated->job);
  if (job == nullptr) {
    absl::StatusOr<v1::RerankResponse> response = Build(call->answer, engine::JobResult());
    return Finish(std::move(call), std::move(response));
  }
  job->bytes = HeldBytes(*job, call->answer);
  job->deadline = call->context.deadline;
  job->client = call->context.client;
  job->cancelled = call->context.cancelled;
  if (call->context.span.is_recording()) call->queued = MonotonicNow();
  job->done = [this, call = std::move(call)](absl::StatusOr<engine::JobResult> result) mutable {
    if (!result.ok()) {
      absl::Status status = result.status();
      if (batching::TakeQueueFullMark(status)) client::SetRetryAfter(scheduler_->RetryDelay(), status);
      return Finish(std::move(call), std::move(status));
    }
    if (absl::Status size = CheckAnswerSize(call->answer, *result, limits_); !size.ok())
      return Finish(std::move(call), size);
    absl::StatusOr<v1::RerankResponse> response = Build(call->answer, *result);
    Finish(std::move(call), std::move(response));
  };
  absl::Status status =
      Guarded([&] { return may_be_held_up ? scheduler_->SubmitOrScore(job) : scheduler_->Submit(job); });
  if (!status.ok() && job != nullptr) job->done(std::move(status));
}

absl::StatusOr<v1::RerankResponse> RerankService::Build(const PendingAnswer& answer, const engine::JobResult& result) {
  absl::StatusOr<v1::RerankResponse> response =
      Guarded([&]() -> absl::StatusOr<v1::RerankResponse> { return BuildResponse(answer, result); });
  if (!response.ok()) metrics_->CountRejection(Rejection::kMemory);
  return response;
}

void RerankService::CountUnread(std::string_view method, absl::Time arrival, const absl::Status& status) {
  metrics_->CountRequest(method, status.code(), MonotonicNow() - arrival);
  metrics_->CountRejection(absl::IsResourceExhausted(status) ? Rejection::kMemory : Rejection::kInvalid);
}

void RerankService::Finish(std::unique_ptr<Call> call, absl::StatusOr<v1::RerankResponse> response) {
  Answer(*call, std::move(response));
}

void RerankService::Answer(Call& call, absl::StatusOr<v1::RerankResponse> response) {
  const absl::Time now = MonotonicNow();
  // gRPC cancels a call whose deadline has passed; for the records that is what happened.
  if (response.status().code() == absl::StatusCode::kCancelled && now >= call.context.deadline) {
    response = absl::DeadlineExceededError("the deadline passed before the answer was ready");
  }
  if (response.ok()) {
    response->mutable_timings()->set_total_us(absl::ToDoubleMicroseconds(now - call.context.arrival));
    response->mutable_timings()->set_encode_us(absl::ToDoubleMicroseconds(call.encode_time));
  }
  Record(call.context,
         {.metrics = metrics_,
          .method = call.context.method,
          .arrival = call.context.arrival,
          .span = std::move(call.context.span),
          .timings = response.ok() ? response->timings() : v1::Timings(),
          .queued = call.queued,
          .log = &log_,
          .request_id = std::move(call.request_id),
          .collection = std::move(call.collection)},
         response.status());
  std::exchange(call.done, nullptr)(std::move(response));
}

}  // namespace maxsim::service
