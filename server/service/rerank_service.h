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
#include "server/service/inline_collections.h"
#include "server/service/limits.h"
#include "server/service/text_encoding.h"
#include "server/service/translate.h"
#include "server/store/collection_store.h"
#include "server/tracing/span.h"

namespace maxsim::service {

// Whence a call came and how long it may take. The times are those of MonotonicNow().
struct CallContext {
  std::string_view method;  // as the metrics name it; static
  absl::Time arrival = MonotonicNow();
  absl::Time deadline = absl::InfiniteFuture();
  uint64_t client = 0;                                // who asks (ClientOf), for fairness
  std::shared_ptr<std::atomic<bool>> cancelled = {};  // may be null
  bool may_be_held_up = false;                        // the calling thread: a short request may be scored on it
  tracing::Span span = {};                            // of the call; the service ends it
};

// The class is thread-safe.
class RerankService {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<v1::RerankResponse>)>;

  // All must outlive the service and every call. A request that takes `slow_request` or longer is logged as a warning,
  // at most one each 100 ms; zero: none is.
  RerankService(const store::CollectionStore* store, TextEncoding* texts, batching::Scheduler* scheduler,
                Metrics* metrics, RequestLimits limits, absl::Duration slow_request);

  // Validates on the calling thread, has texts encoded, queues, and calls `done` exactly once: before it returns where
  // nothing was queued and no encoder asked, else from one of the threads of the scheduler or of TextEncoding, which
  // `done` must not hold up. Where context.may_be_held_up, a request that would not wait is scored and answered before
  // this returns (Scheduler::SubmitOrScore). Errors as in rerank.proto; RESOURCE_EXHAUSTED carries RetryInfo
  // (server/service/status.h). Every call is counted and timed.
  void Rerank(v1::RerankRequest request, CallContext context, Done done);

  // For callers who name a model and know of no collections: takes away the name of one that is not served where all
  // candidates are inline documents, and names the one collection of a server that has one where none is named.
  // INVALID_ARGUMENT, in words of those callers, where the server has none or several.
  absl::Status ChooseCollection(v1::RerankRequest* request) const;

  // Counts a call whose request could not be read, and which Rerank never saw.
  void CountUnread(std::string_view method, absl::Time arrival, const absl::Status& status);

  // Requests that come while the server loads or drains are UNAVAILABLE; those accepted are not touched. The first
  // state is kLoading.
  enum class State { kLoading, kServing, kDraining };
  void SetState(State state) { state_ = state; }

  const RequestLimits& limits() const { return limits_; }

  // What is known of the encoder of texts; null where there is none.
  std::unique_ptr<v1::EncoderInfo> encoder() const { return texts_->info(); }

 private:
  struct Call;
  absl::StatusOr<v1::RerankResponse> Build(const PendingAnswer& answer, const engine::JobResult& result);
  void Finish(std::unique_ptr<Call> call, absl::StatusOr<v1::RerankResponse> response);
  void Log(const Call& call, const absl::StatusOr<v1::RerankResponse>& response, absl::Time now);
  // True for the one caller that may write the next line about a slow request.
  bool TakeSlowLine(absl::Time now);
  absl::Status CheckState() const;
  absl::Status CheckTexts(const v1::RerankRequest& request) const;
  absl::StatusOr<std::shared_ptr<const store::Collection>> CollectionFor(const v1::RerankRequest& request);
  absl::StatusOr<Translated> TranslateFor(const v1::RerankRequest& request);
  void Encode(std::unique_ptr<Call> call, v1::RerankRequest request);
  void Score(std::unique_ptr<Call> call, const v1::RerankRequest& request);
  // Count why a request was not scored: what its validation said, or its encoder.
  void CountRefusal(const absl::Status& status) const;
  void CountEncoderFailure(const absl::Status& status) const;

  const store::CollectionStore* const store_;
  TextEncoding* const texts_;
  InlineCollections inline_collections_;
  batching::Scheduler* const scheduler_;
  Metrics* const metrics_;
  const RequestLimits limits_;
  const absl::Duration slow_request_;
  std::atomic<int64_t> next_slow_line_us_{0};  // of MonotonicNow(), since the epoch
  std::atomic<State> state_{State::kLoading};
};

}  // namespace maxsim::service
