// Reranks, whatever the transport: gRPC and HTTP both come through here, so that both obey the same rules.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/batching/scheduler.h"
#include "server/observability/metrics.h"
#include "server/service/api.h"
#include "server/service/call/call_context.h"
#include "server/service/call/call_record.h"
#include "server/service/call/limits.h"
#include "server/service/request/inline_collections.h"
#include "server/service/request/text_encoding.h"
#include "server/service/request/translate.h"
#include "server/store/collection_store.h"
#include "server/tracing/span.h"

namespace maxsim::service {

// The class is thread-safe.
class RerankService : public RerankApi {
 public:
  using Done = service::Done<v1::RerankResponse>;

  // All must outlive the service and every call. A request that takes `slow_request` or longer is logged as a warning,
  // at most one each 100 ms; zero: none is.
  RerankService(const store::CollectionStore* store, TextEncoding* texts, batching::Scheduler* scheduler,
                Metrics* metrics, RequestLimits limits, absl::Duration slow_request);

  // Validates on the calling thread, has texts encoded, queues, and calls `done` exactly once: before it returns where
  // nothing was queued and no encoder asked, else from one of the threads of the scheduler or of TextEncoding, which
  // `done` must not hold up. Where context.may_be_held_up, a request that would not wait is scored and answered before
  // this returns (Scheduler::SubmitOrScore).
  void Rerank(v1::RerankRequest request, CallContext context, Done done) override;
  absl::Status ChooseCollection(v1::RerankRequest* request) const override;
  void CountUnread(std::string_view method, absl::Time arrival, const absl::Status& status) override;
  const RequestLimits& limits() const override { return limits_; }
  std::unique_ptr<v1::EncoderInfo> encoder() const override { return texts_->info(); }

  void SetState(ServingState state) { state_ = state; }
  ServingState state() const { return state_; }

 private:
  struct Call;
  absl::StatusOr<v1::RerankResponse> Build(const PendingAnswer& answer, const engine::JobResult& result);
  void Finish(std::unique_ptr<Call> call, absl::StatusOr<v1::RerankResponse> response);
  // Answers the call and records it.
  void Answer(Call& call, absl::StatusOr<v1::RerankResponse> response);
  absl::Status CheckState() const;
  // FAILED_PRECONDITION is that of the generation or of the encoder: `precondition` is set to which.
  absl::Status CheckTexts(const v1::RerankRequest& request, Rejection* precondition) const;
  absl::StatusOr<std::shared_ptr<const store::Collection>> CollectionFor(const v1::RerankRequest& request);
  absl::StatusOr<Translated> TranslateFor(const v1::RerankRequest& request);
  void Encode(std::unique_ptr<Call> call, v1::RerankRequest request);
  void Score(std::unique_ptr<Call> call, const v1::RerankRequest& request);
  // Count why a request was not scored: what its validation said, or its encoder. `precondition` is what
  // FAILED_PRECONDITION counts as.
  void CountRefusal(const absl::Status& status, Rejection precondition) const;
  void CountEncoderFailure(const absl::Status& status) const;

  const store::CollectionStore* const store_;
  TextEncoding* const texts_;
  InlineCollections inline_collections_;
  batching::Scheduler* const scheduler_;
  Metrics* const metrics_;
  const RequestLimits limits_;
  RequestLog log_;
  std::atomic<ServingState> state_{ServingState::kLoading};
};

}  // namespace maxsim::service
