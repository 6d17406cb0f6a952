#include "server/grpc/grpc_documents.h"

#include <utility>

#include "base/monotonic_clock.h"
#include "server/grpc/answering_call.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/messages/message_buffer.h"
#include "server/grpc/upsert_stream.h"
#include "server/service/call/call_spans.h"

namespace maxsim::rpc {
namespace {

using service::CallContext;
using service::Scope;

}  // namespace

template <typename Request, typename Work>
grpc::ServerUnaryReactor* GrpcDocuments::Begin(const char* method, std::string_view span_name, Scope scope,
                                               grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response, Work work) {
  const service::CallTracker::Call arriving(deps_.calls);  // already while it is parsed
  const absl::Time arrival = MonotonicNow();
  Request parsed;
  const absl::StatusOr<service::Caller> caller = Identify(*deps_.authenticator, *context, scope);
  absl::Status status = caller.status();
  if (status.ok()) status = ParseMessage(*request, parsed);
  if (!status.ok()) {
    deps_.documents->CountUnread(method, arrival, status);
    return AnswerNow(deps_.calls, status);
  }
  // The request has been parsed. gRPC would keep its bytes until the answer.
  const_cast<grpc::ByteBuffer*>(request)->Clear();
  auto* call = new AnsweringCall(deps_.calls, deps_.answers, context, response);
  CallContext of_call{.method = method,
                      .arrival = arrival,
                      .deadline = scope == Scope::kWrite ? WriteDeadlineOf(*context) : DeadlineOf(*context),
                      .client = ClientOf(*context, deps_.client_key),
                      .cancelled = call->cancelled(),
                      .span = StartSpan(deps_.tracer, span_name, *context, arrival),
                      .record = call->record(),
                      .caller = *caller};
  work(call, std::move(parsed), std::move(of_call));
  return call;
}

grpc::ServerUnaryReactor* GrpcDocuments::Upsert(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  return Begin<v1::UpsertRequest>(
      "Upsert", service::kUpsertSpan, Scope::kWrite, context, request, response,
      [this](AnsweringCall* call, v1::UpsertRequest parsed, CallContext of_call) {
        deps_.documents->Upsert(std::move(parsed), std::move(of_call),
                                [call](const absl::StatusOr<v1::UpsertResponse>& answer) { call->Answer(answer); });
      });
}

grpc::ServerReadReactor<grpc::ByteBuffer>* GrpcDocuments::UpsertStream(grpc::CallbackServerContext* context,
                                                                       grpc::ByteBuffer* response) {
  // Check the token for each request: it may become invalid meanwhile.
  const auto admit = [this, context] {
    const absl::Time arrival = MonotonicNow();
    absl::StatusOr<service::Caller> caller = Identify(*deps_.authenticator, *context, Scope::kWrite);
    if (!caller.ok()) deps_.documents->CountUnread(kUpsertStream, arrival, caller.status());
    return caller;
  };
  return StartUpsertStream(context, response, deps_.documents, admit, ClientOf(*context, deps_.client_key),
                           deps_.stream_in_flight, &streams_, deps_.calls, deps_.tracer);
}

grpc::ServerUnaryReactor* GrpcDocuments::Delete(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  return Begin<v1::DeleteRequest>(
      "Delete", service::kDeleteSpan, Scope::kWrite, context, request, response,
      [this](AnsweringCall* call, const v1::DeleteRequest& parsed, CallContext of_call) {
        deps_.documents->Delete(parsed, std::move(of_call),
                                [call](const absl::StatusOr<v1::DeleteResponse>& answer) { call->Answer(answer); });
      });
}

grpc::ServerUnaryReactor* GrpcDocuments::Get(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* response) {
  return Begin<v1::GetRequest>("Get", service::kGetSpan, Scope::kSearch, context, request, response,
                               [this](AnsweringCall* call, const v1::GetRequest& parsed, CallContext of_call) {
                                 deps_.documents->Get(
                                     parsed, std::move(of_call),
                                     [call](const absl::StatusOr<v1::GetResponse>& answer) { call->Answer(answer); });
                               });
}

grpc::ServerUnaryReactor* GrpcDocuments::Scroll(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  return Begin<v1::ScrollRequest>(
      "Scroll", service::kScrollSpan, Scope::kSearch, context, request, response,
      [this](AnsweringCall* call, const v1::ScrollRequest& parsed, CallContext of_call) {
        deps_.documents->Scroll(parsed, std::move(of_call),
                                [call](const absl::StatusOr<v1::ScrollResponse>& answer) { call->Answer(answer); });
      });
}

grpc::ServerUnaryReactor* GrpcDocuments::Count(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) {
  return Begin<v1::CountRequest>(
      "Count", service::kCountSpan, Scope::kSearch, context, request, response,
      [this](AnsweringCall* call, const v1::CountRequest& parsed, CallContext of_call) {
        deps_.documents->Count(parsed, std::move(of_call),
                               [call](const absl::StatusOr<v1::CountResponse>& answer) { call->Answer(answer); });
      });
}

grpc::ServerUnaryReactor* GrpcDocuments::Facets(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  return Begin<v1::FacetsRequest>(
      "Facets", service::kFacetsSpan, Scope::kSearch, context, request, response,
      [this](AnsweringCall* call, const v1::FacetsRequest& parsed, CallContext of_call) {
        deps_.documents->Facets(parsed, std::move(of_call),
                                [call](const absl::StatusOr<v1::FacetsResponse>& answer) { call->Answer(answer); });
      });
}

}  // namespace maxsim::rpc
