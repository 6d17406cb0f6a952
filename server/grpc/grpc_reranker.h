// Has the maxsim.v1.Reranker service over gRPC's callback API. This is transport only: everything else is
// RerankService.
#pragma once

#include <cstdint>

#include "maxsim/v1/rerank.grpc.pb.h"
#include "server/grpc/answer_budget.h"
#include "server/grpc/rerank_stream.h"
#include "server/observability/metrics.h"
#include "server/service/auth.h"
#include "server/service/call_tracker.h"
#include "server/service/rerank_service.h"
#include "server/store/collection_store.h"
#include "server/store/device_set.h"
#include "server/tracing/tracer.h"

namespace maxsim::rpc {

// Requests come raw (message_buffer.h); that of GetInfo, which holds nothing, as gRPC parses it. The base is Service,
// whose methods these replace: CallbackService has all of them typed.
using RawReranker = v1::Reranker::WithRawCallbackMethod_Rerank<
    v1::Reranker::WithRawCallbackMethod_RerankStream<v1::Reranker::WithCallbackMethod_GetInfo<v1::Reranker::Service>>>;

class GrpcReranker : public RawReranker {
 public:
  // Everything must outlive the gRPC server that this is registered with.
  struct Dependencies {
    service::RerankService* rerank = nullptr;
    const service::Authenticator* authenticator = nullptr;
    const store::DeviceSet* devices = nullptr;
    const store::CollectionStore* store = nullptr;
    Metrics* metrics = nullptr;
    service::CallTracker* calls = nullptr;
    uint64_t max_queue_work = 0;
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
  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context, const v1::GetInfoRequest* request,
                                    v1::GetInfoResponse* response) override;

 private:
  const Dependencies deps_;
  AnswerBudget answers_;
  StreamRegistry streams_;
};

}  // namespace maxsim::rpc
