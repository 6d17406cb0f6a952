#include "server/service/rerank_service.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "client/status.h"
#include "collection/collection_name.h"
#include "server/observability/logging.h"
#include "server/service/status.h"

namespace maxsim::service {
namespace {

// Lines about slow requests are at least so far apart. Under overload every request is slow, and lines by the thousand
// would make it worse.
constexpr absl::Duration kSlowLineInterval = absl::Milliseconds(100);

int64_t WholeMicroseconds(double us) { return static_cast<int64_t>(us); }

}  // namespace

struct RerankService::Call {
  // A call is answered in any case: one whose job was lost for want of memory, here.
  ~Call() {
    if (done != nullptr) done(NoMemory());
  }

  CallContext context;
  // The id is for the log, and cut where it is too long.
  std::string request_id;
  std::string collection;
  PendingAnswer answer;
  Done done;
};

RerankService::RerankService(const store::CollectionStore* store, batching::Scheduler* scheduler, Metrics* metrics,
                             RequestLimits limits, absl::Duration slow_request)
    : store_(store), scheduler_(scheduler), metrics_(metrics), limits_(limits), slow_request_(slow_request) {}

absl::StatusOr<Translated> RerankService::TranslateFor(const v1::RerankRequest& request) const {
  // A request without a collection's name is wrong, not one for a collection that is not there.
  if (absl::Status status = CheckEnvelope(request, limits_); !status.ok()) return status;
  auto collection = store_->Find(request.collection());
  if (!collection.ok()) return collection.status();
  return Translate(request, *std::move(collection), limits_);
}

absl::StatusOr<Translated> RerankService::Prepare(const v1::RerankRequest& request) const {
  if (const State state = state_; state != State::kServing) {
    metrics_->CountRejection(state == State::kLoading ? Rejection::kLoading : Rejection::kShutdown);
    return absl::UnavailableError(state == State::kLoading ? "the server is loading" : "the server is draining");
  }
  absl::StatusOr<Translated> translated = TranslateFor(request);
  // Only what is refused here is counted here; the scheduler counts what it refuses.
  if (translated.status().code() == absl::StatusCode::kInvalidArgument) metrics_->CountRejection(Rejection::kInvalid);
  if (translated.status().code() == absl::StatusCode::kNotFound) metrics_->CountRejection(Rejection::kNotFound);
  if (translated.status().code() == absl::StatusCode::kUnavailable) metrics_->CountRejection(Rejection::kLoading);
  return translated;
}

void RerankService::Rerank(const v1::RerankRequest& request, CallContext context, Done done) {
  const bool may_be_held_up = context.may_be_held_up;
  auto call = std::make_unique<Call>();
  call->context = std::move(context);
  call->request_id = request.request_id().substr(0, static_cast<size_t>(kMaxRequestIdBytes));
  call->collection = request.collection().substr(0, collection::kMaxCollectionNameBytes);
  call->done = std::move(done);
  absl::StatusOr<Translated> translated = Guarded([&] { return Prepare(request); });
  if (absl::IsResourceExhausted(translated.status())) metrics_->CountRejection(Rejection::kMemory);
  if (!translated.ok()) return Finish(std::move(call), translated.status());
  call->answer = std::move(translated->answer);
  std::unique_ptr<engine::Job> job = std::move(translated->job);
  if (job == nullptr) {
    absl::StatusOr<v1::RerankResponse> response = Build(call->answer, engine::JobResult());
    return Finish(std::move(call), std::move(response));
  }
  job->bytes = HeldBytes(*job, call->answer);
  job->deadline = call->context.deadline;
  job->client = call->context.client;
  job->cancelled = call->context.cancelled;
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
  const absl::Time now = MonotonicNow();
  const absl::Duration duration = now - call->context.arrival;
  // gRPC cancels a call whose deadline has passed; for the records that is what happened.
  if (response.status().code() == absl::StatusCode::kCancelled && now >= call->context.deadline) {
    response = absl::DeadlineExceededError("the deadline passed before the answer was ready");
  }
  if (response.ok()) response->mutable_timings()->set_total_us(absl::ToDoubleMicroseconds(duration));
  metrics_->CountRequest(call->context.method, response.status().code(), duration);
  Log(*call, response, now);
  std::exchange(call->done, nullptr)(std::move(response));
}

void RerankService::Log(const Call& call, const absl::StatusOr<v1::RerankResponse>& response, absl::Time now) {
  const absl::Duration duration = now - call.context.arrival;
  const bool slow = slow_request_ > absl::ZeroDuration() && duration >= slow_request_ && TakeSlowLine(now);
  if (!slow && !log::DebugEnabled()) return;
  const v1::Timings& timings = response.ok() ? response->timings() : v1::Timings::default_instance();
  const auto write = [&](spdlog::level::level_enum level, const char* event) {
    log::Write(level, event,
               {{"method", std::string(call.context.method)},
                {"request_id", call.request_id},
                {"collection", call.collection},
                {"code", CodeName(response.status().code())},
                {"duration_us", absl::ToInt64Microseconds(duration)},
                {"queue_us", WholeMicroseconds(timings.queue_us())},
                {"kernel_us", WholeMicroseconds(timings.kernel_us())},
                {"error", std::string(response.status().message())}});
  };
  if (slow) write(spdlog::level::warn, "slow_request");
  if (log::DebugEnabled()) write(spdlog::level::debug, "request");
}

bool RerankService::TakeSlowLine(absl::Time now) {
  const int64_t now_us = absl::ToUnixMicros(now);
  const int64_t interval_us = absl::ToInt64Microseconds(kSlowLineInterval);
  int64_t next_us = next_slow_line_us_;
  if (now_us < next_us) return false;
  return next_slow_line_us_.compare_exchange_strong(next_us, now_us + interval_us);
}

}  // namespace maxsim::service
