// The maxsim.v1.Reranker service over gRPC's callback API: authentication and messages. The rest is in RerankApi and
// ExplainApi.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "maxsim/v1/rerank.grpc.pb.h"
#include "server/grpc/messages/answer_budget.h"
#include "server/grpc/rerank_stream.h"
#include "server/observability/metrics.h"
#include "server/service/api.h"
#include "server/service/call/auth.h"
#include "server/service/call/call_tracker.h"
#include "server/tracing/tracer.h"

namespace maxsim::rpc {

// Requests arrive as raw bytes (message_buffer.h), except that of GetInfo, which has no fields. The base class is
// Reranker::Service, because Reranker::CallbackService has no raw methods.
using RawReranker = v1::Reranker::WithRawCallbackMethod_Rerank<v1::Reranker::WithRawCallbackMethod_RerankStream<
    v1::Reranker::WithRawCallbackMethod_Explain<v1::Reranker::WithCallbackMethod_GetInfo<v1::Reranker::Service>>>>;

class GrpcReranker : public RawReranker {
 public:
  // All of these must outlive the gRPC server that the service is registered with.
  struct Dependencies {
    service::RerankApi* rerank = nullptr;
    service::ExplainApi* explain = nullptr;
    const service::Authenticator* authenticator = nullptr;
    Metrics* metrics = nullptr;
    service::CallTracker* calls = nullptr;
    // Returns what a caller may know about the server. Thread-safe.
    std::function<v1::GetInfoResponse(const service::Caller&)> info;
    int stream_in_flight = 64;
    uint64_t max_unread_answer_bytes = uint64_t{256} << 20;  // of all calls together; 0 for no bound
    std::string client_key;                                  // metadata that identifies clients; "" for none
    const tracing::Tracer* tracer = nullptr;                 // may be null; then calls are not traced
  };
  explicit GrpcReranker(const Dependencies& dependencies)
      : deps_(dependencies), answers_(dependencies.max_unread_answer_bytes, dependencies.metrics) {}

  // Ends open streams with UNAVAILABLE when their requests are answered. Later streams end at once.
  void DrainStreams() { streams_.Drain(); }

  // Returns the limit on unread answers, which other services share.
  AnswerBudget* answers() { return &answers_; }

  grpc::ServerUnaryReactor* Rerank(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* RerankStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context, const v1::GetInfoRequest* request,
                                    v1::GetInfoResponse* response) override;

 private:
  // Identifies the caller of a unary call, and parses its request into `message`. If either fails, counts the call in
  // the metrics and returns the error.
  absl::StatusOr<service::Caller> Receive(const char* method, absl::Time arrival,
                                          const grpc::CallbackServerContext& context, const grpc::ByteBuffer& request,
                                          v1::RerankRequest& parsed);

  const Dependencies deps_;
  AnswerBudget answers_;
  StreamRegistry streams_;
};

}  // namespace maxsim::rpc
