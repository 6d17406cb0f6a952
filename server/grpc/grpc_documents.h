// Has the maxsim.v1.Documents service over gRPC's callback API. This is transport only: everything else is
// DocumentApi.
#pragma once

#include <string>

#include "maxsim/v1/documents.grpc.pb.h"
#include "server/grpc/messages/answer_budget.h"
#include "server/grpc/stream_registry.h"
#include "server/service/api.h"
#include "server/service/call/auth.h"
#include "server/service/call/call_tracker.h"
#include "server/tracing/tracer.h"

namespace maxsim::rpc {

// Requests come raw (message_buffer.h). The base is Service, whose methods these replace: CallbackService has all of
// them typed.
using RawDocuments = v1::Documents::WithRawCallbackMethod_Upsert<
    v1::Documents::WithRawCallbackMethod_UpsertStream<v1::Documents::WithRawCallbackMethod_Delete<
        v1::Documents::WithRawCallbackMethod_Get<v1::Documents::WithRawCallbackMethod_Count<
            v1::Documents::WithRawCallbackMethod_Facets<v1::Documents::Service>>>>>>;

class GrpcDocuments : public RawDocuments {
 public:
  // Everything must outlive the gRPC server that this is registered with.
  struct Dependencies {
    service::DocumentApi* documents = nullptr;
    const service::Authenticator* authenticator = nullptr;
    service::CallTracker* calls = nullptr;
    AnswerBudget* answers = nullptr;
    int stream_in_flight = 64;  // requests of one stream that have been handed over and are not on the disk yet
    std::string client_key;     // metadata by which a client names itself; "" for none
    const tracing::Tracer* tracer = nullptr;  // null: calls are not traced
  };
  explicit GrpcDocuments(Dependencies dependencies) : deps_(std::move(dependencies)) {}

  // Open streams end with UNAVAILABLE as soon as what they have handed over is written; new ones end at once.
  void DrainStreams() { streams_.Drain(); }

  grpc::ServerUnaryReactor* Upsert(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerReadReactor<grpc::ByteBuffer>* UpsertStream(grpc::CallbackServerContext* context,
                                                          grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Count(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Facets(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;

 private:
  // Authenticates and parses; then calls `work(call, request, context)`, which answers the call.
  template <typename Request, typename Work>
  grpc::ServerUnaryReactor* Begin(const char* method, std::string_view span_name, service::Scope scope,
                                  grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response, Work work);

  const Dependencies deps_;
  StreamRegistry streams_;
};

}  // namespace maxsim::rpc
