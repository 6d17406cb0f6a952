// Reranks, whatever the transport: gRPC and HTTP both come through here, so that both obey the same rules.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/batching/scheduler.h"
#include "server/observability/metrics.h"
#include "server/service/limits.h"
#include "server/service/translate.h"
#include "server/store/collection_store.h"

namespace maxsim::service {

// Whence a call came and how long it may take. The times are those of MonotonicNow().
struct CallContext {
  std::string_view method;  // as the metrics name it; static
  absl::Time arrival = MonotonicNow();
  absl::Time deadline = absl::InfiniteFuture();
  uint64_t client = 0;                           // who asks (ClientOf), for fairness
  std::shared_ptr<std::atomic<bool>> cancelled;  // may be null
  bool may_be_held_up = false;                   // the calling thread: a short request may be scored on it
};

// The class is thread-safe.
class RerankService {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<v1::RerankResponse>)>;

  // All must outlive the service and every call. A request that takes `slow_request` or longer is logged as a warning,
  // at most one each 100 ms; zero: none is.
  RerankService(const store::CollectionStore* store, batching::Scheduler* scheduler, Metrics* metrics,
                RequestLimits limits, absl::Duration slow_request);

  // Validates on the calling thread, queues, and calls `done` exactly once: before it returns where nothing was queued,
  // else from one of the scheduler's threads, which `done` must not hold up. Where context.may_be_held_up, a request
  // that would not wait is scored and answered before this returns (Scheduler::SubmitOrScore). The request may be gone
  // when Rerank returns. Errors as in rerank.proto; RESOURCE_EXHAUSTED carries RetryInfo
  // (server/service/status.h). Every call is counted and timed.
  void Rerank(const v1::RerankRequest& request, CallContext context, Done done);

  // Counts a call whose request could not be read, and which Rerank never saw.
  void CountUnread(std::string_view method, absl::Time arrival, const absl::Status& status);

  // Requests that come while the server loads or drains are UNAVAILABLE; those accepted are not touched. The first
  // state is kLoading.
  enum class State { kLoading, kServing, kDraining };
  void SetState(State state) { state_ = state; }

  const RequestLimits& limits() const { return limits_; }

 private:
  struct Call;
  absl::StatusOr<v1::RerankResponse> Build(const PendingAnswer& answer, const engine::JobResult& result);
  void Finish(std::unique_ptr<Call> call, absl::StatusOr<v1::RerankResponse> response);
  void Log(const Call& call, const absl::StatusOr<v1::RerankResponse>& response, absl::Time now);
  // True for the one caller that may write the next line about a slow request.
  bool TakeSlowLine(absl::Time now);
  absl::StatusOr<Translated> TranslateFor(const v1::RerankRequest& request) const;
  absl::StatusOr<Translated> Prepare(const v1::RerankRequest& request) const;

  const store::CollectionStore* const store_;
  batching::Scheduler* const scheduler_;
  Metrics* const metrics_;
  const RequestLimits limits_;
  const absl::Duration slow_request_;
  std::atomic<int64_t> next_slow_line_us_{0};  // of MonotonicNow(), since the epoch
  std::atomic<State> state_{State::kLoading};
};

}  // namespace maxsim::service
