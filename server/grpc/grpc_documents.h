// The maxsim.v1.Documents service over gRPC's callback API: authentication and messages. The rest is in DocumentApi.
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

// Requests arrive as raw bytes (message_buffer.h), as in grpc_reranker.h.
using RawDocuments = v1::Documents::WithRawCallbackMethod_Upsert<v1::Documents::WithRawCallbackMethod_UpsertStream<
    v1::Documents::WithRawCallbackMethod_Delete<v1::Documents::WithRawCallbackMethod_Get<
        v1::Documents::WithRawCallbackMethod_Scroll<v1::Documents::WithRawCallbackMethod_Count<
            v1::Documents::WithRawCallbackMethod_Facets<v1::Documents::Service>>>>>>>;

class GrpcDocuments : public RawDocuments {
 public:
  // All of these must outlive the gRPC server that the service is registered with.
  struct Dependencies {
    service::DocumentApi* documents = nullptr;
    const service::Authenticator* authenticator = nullptr;
    service::CallTracker* calls = nullptr;
    AnswerBudget* answers = nullptr;
    int stream_in_flight = 64;                // limit on requests of a stream that are handed over but not yet on disk
    std::string client_key;                   // metadata key by which clients identify themselves; "" for none
    const tracing::Tracer* tracer = nullptr;  // may be null; then calls are not traced
  };
  explicit GrpcDocuments(Dependencies dependencies) : deps_(std::move(dependencies)) {}

  // Ends open streams with UNAVAILABLE when their writes are done. Later streams end at once.
  void DrainStreams() { streams_.Drain(); }

  grpc::ServerUnaryReactor* Upsert(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerReadReactor<grpc::ByteBuffer>* UpsertStream(grpc::CallbackServerContext* context,
                                                          grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Scroll(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Count(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Facets(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;

 private:
  // Authenticates the call and parses its request. If both succeed, calls `work(call, request, context)`, which must
  // answer the call. Otherwise answers with the error.
  template <typename Request, typename Work>
  grpc::ServerUnaryReactor* Begin(const char* method, std::string_view span_name, service::Scope scope,
                                  grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response, Work work);

  const Dependencies deps_;
  StreamRegistry streams_;
};

}  // namespace maxsim::rpc
