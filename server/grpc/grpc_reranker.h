// Has the maxsim.v1.Reranker service over gRPC's callback API. This is transport only: everything else is
// RerankApi and ExplainApi.
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

// Requests come raw (message_buffer.h); that of GetInfo, which holds nothing, as gRPC parses it. The base is Service,
// whose methods these replace: CallbackService has all of them typed.
using RawReranker = v1::Reranker::WithRawCallbackMethod_Rerank<v1::Reranker::WithRawCallbackMethod_RerankStream<
    v1::Reranker::WithRawCallbackMethod_Explain<v1::Reranker::WithCallbackMethod_GetInfo<v1::Reranker::Service>>>>;

class GrpcReranker : public RawReranker {
 public:
  // Everything must outlive the gRPC server that this is registered with.
  struct Dependencies {
    service::RerankApi* rerank = nullptr;
    service::ExplainApi* explain = nullptr;
    const service::Authenticator* authenticator = nullptr;
    Metrics* metrics = nullptr;
    service::CallTracker* calls = nullptr;
    std::function<v1::GetInfoResponse()> info;  // thread-safe
    int stream_in_flight = 64;
    uint64_t max_unread_answer_bytes = uint64_t{256} << 20;  // of all calls; 0: no bound
    std::string client_key;                                  // metadata by which a client names itself; "" for none
    const tracing::Tracer* tracer = nullptr;                 // null: calls are not traced
  };
  explicit GrpcReranker(const Dependencies& dependencies)
      : deps_(dependencies), answers_(dependencies.max_unread_answer_bytes, dependencies.metrics) {}

  // Open streams end with UNAVAILABLE as soon as what they have accepted is answered; new ones end at once.
  void DrainStreams() { streams_.Drain(); }

  // The bound of unread answers, which other services' count for too.
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
  // Authenticates a unary call and parses its request. Returns why it is refused, which has been counted.
  absl::Status Receive(const char* method, absl::Time arrival, const grpc::CallbackServerContext& context,
                       const grpc::ByteBuffer& request, v1::RerankRequest& parsed);

  const Dependencies deps_;
  AnswerBudget answers_;
  StreamRegistry streams_;
};

}  // namespace maxsim::rpc
