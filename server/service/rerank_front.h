// Receives all rerank and explain calls, over gRPC and HTTP, of a server of collections and of a router. Checks a call,
// has its texts encoded, and hands it to the Scorer.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/observability/metrics.h"
#include "server/service/api.h"
#include "server/service/call/call_record.h"
#include "server/service/call/limits.h"
#include "server/service/request/text_encoding.h"
#include "server/service/scorer.h"

namespace maxsim::service {

// The class is thread-safe.
class RerankFront : public RerankApi, public ExplainApi {
 public:
  // All arguments must outlive the front and every call. Logs a warning for a rerank request that takes `slow_request`
  // or longer, at most one per 100 ms. Zero turns this off.
  RerankFront(Scorer* scorer, TextEncoding* texts, Metrics* metrics, const RequestLimits& limits,
              absl::Duration slow_request)
      : scorer_(scorer), texts_(texts), metrics_(metrics), limits_(limits), log_(slow_request) {}

  // Check the request without the collection (CheckEnvelope) on the calling thread, have texts encoded, and hand the
  // call to the scorer. They call `done` exactly once: before they return if no encoder is needed and the scorer
  // answers immediately, otherwise on a thread of TextEncoding or of the scorer, which `done` must not block. If
  // context.may_be_held_up and the queue is idle, Rerank may score the request on the calling thread.
  void Rerank(v1::RerankRequest&& request, CallContext&& context, Done<v1::RerankResponse>&& done) override;
  void Explain(v1::RerankRequest request, CallContext context, Done<v1::ExplainResponse> done) override;

  absl::Status ChooseCollection(const Caller& caller, v1::RerankRequest* request) const override;
  void CountUnread(std::string_view method, absl::Time arrival, const absl::Status& status) override;
  const RequestLimits& limits() const override { return limits_; }
  std::unique_ptr<v1::EncoderInfo> encoder() const override { return texts_->info(); }

  // Sets how new rerank calls are treated. Explain calls are always answered.
  void SetState(ServingState state) { state_ = state; }
  ServingState state() const { return state_; }

 private:
  // `CallType` is RerankCall or ExplainCall.
  template <typename CallType>
  void Begin(std::unique_ptr<CallType> call);
  template <typename CallType>
  void Encode(std::unique_ptr<CallType> call);
  absl::Status CheckTextsAndTarget(const v1::RerankRequest& request) const;

  Scorer* const scorer_;
  TextEncoding* const texts_;
  Metrics* const metrics_;
  const RequestLimits limits_;
  RequestLog log_;
  std::atomic<ServingState> state_{ServingState::kLoading};
};

}  // namespace maxsim::service
