#include "server/grpc/grpc_reranker.h"

#include <utility>

#include "base/monotonic_clock.h"
#include "server/grpc/answering_call.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/messages/message_buffer.h"
#include "server/service/call/call_spans.h"
#include "server/service/call/status.h"
#include "server/service/call/write_expiry.h"
#include "server/service/hidden_folders.h"

namespace maxsim::rpc {
namespace {

// The names of the methods in the metrics.
constexpr char kRerank[] = "Rerank";
constexpr char kExplain[] = "Explain";

}  // namespace

absl::StatusOr<service::Caller> GrpcReranker::Receive(const char* method, absl::Time arrival,
                                                      const grpc::CallbackServerContext& context,
                                                      const grpc::ByteBuffer& request, v1::RerankRequest& parsed) {
  absl::StatusOr<service::Caller> caller = Identify(*deps_.authenticator, context, service::Scope::kSearch);
  if (!caller.ok()) {
    deps_.metrics->CountRequest(method, caller.status().code(), MonotonicNow() - arrival);
    return caller;
  }
  if (absl::Status status = ParseMessage(request, parsed); !status.ok()) {
    deps_.rerank->CountUnread(method, arrival, status);
    return status;
  }
  // The request has been parsed. gRPC would keep its bytes until the answer.
  const_cast<grpc::ByteBuffer&>(request).Clear();
  return caller;
}

grpc::ServerUnaryReactor* GrpcReranker::Rerank(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) {
  const service::CallTracker::Call arriving(deps_.calls);  // already while it is parsed
  const absl::Time arrival = MonotonicNow();
  v1::RerankRequest parsed;
  const absl::StatusOr<service::Caller> caller = Receive(kRerank, arrival, *context, *request, parsed);
  if (!caller.ok()) return AnswerNow(deps_.calls, caller.status());
  auto* call = new AnsweringCall(deps_.calls, &answers_, context, response);
  deps_.rerank->Rerank(std::move(parsed),
                       {.method = kRerank,
                        .arrival = arrival,
                        .deadline = DeadlineOf(*context),
                        .client = ClientOf(*context, deps_.client_key),
                        .cancelled = call->cancelled(),
                        .may_be_held_up = true,
                        .span = StartSpan(deps_.tracer, service::kRerankSpan, *context, arrival),
                        .record = call->record(),
                        .caller = *caller},
                       [call](const absl::StatusOr<v1::RerankResponse>& answer) { call->Answer(answer); });
  return call;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GrpcReranker::RerankStream(
    grpc::CallbackServerContext* context) {
  // Check the token for each request: it may become invalid meanwhile.
  const auto admit = [this, context] {
    const absl::Time arrival = MonotonicNow();
    absl::StatusOr<service::Caller> caller = Identify(*deps_.authenticator, *context, service::Scope::kSearch);
    if (!caller.ok()) {
      deps_.metrics->CountRequest("RerankStream", caller.status().code(), MonotonicNow() - arrival);
    }
    return caller;
  };
  return StartRerankStream(context, deps_.rerank, admit, ClientOf(*context, deps_.client_key), deps_.stream_in_flight,
                           &answers_, &streams_, deps_.calls, deps_.tracer);
}

grpc::ServerUnaryReactor* GrpcReranker::Explain(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                grpc::ByteBuffer* response) {
  const service::CallTracker::Call arriving(deps_.calls);
  const absl::Time arrival = MonotonicNow();
  v1::RerankRequest parsed;
  const absl::StatusOr<service::Caller> caller = Receive(kExplain, arrival, *context, *request, parsed);
  if (!caller.ok()) return AnswerNow(deps_.calls, caller.status());
  auto* call = new AnsweringCall(deps_.calls, &answers_, context, response);
  deps_.explain->Explain(std::move(parsed),
                         {.method = kExplain,
                          .arrival = arrival,
                          .deadline = DeadlineOf(*context),
                          .client = ClientOf(*context, deps_.client_key),
                          .cancelled = call->cancelled(),
                          .span = StartSpan(deps_.tracer, service::kExplainSpan, *context, arrival),
                          .record = call->record(),
                          .caller = *caller},
                         [call](const absl::StatusOr<v1::ExplainResponse>& answer) { call->Answer(answer); });
  return call;
}

grpc::ServerUnaryReactor* GrpcReranker::GetInfo(grpc::CallbackServerContext* context, const v1::GetInfoRequest*,
                                                v1::GetInfoResponse* response) {
  const absl::Time arrival = MonotonicNow();
  const absl::StatusOr<service::Caller> caller = Identify(*deps_.authenticator, *context, service::Scope::kSearch);
  if (caller.ok()) {
    *response = deps_.info(*caller);
    // Routers need the clock for the expiry of writes, and tenants do not.
    if (caller->tenant() == nullptr) {
      response->mutable_clock()->set_id(service::ClockId());
      response->mutable_clock()->set_now_us(absl::ToUnixMicros(MonotonicNow()));
    }
  }
  if (!Authenticate(*deps_.authenticator, *context, service::Scope::kAdmin).ok()) {
    for (v1::CollectionInfo& info : *response->mutable_collections()) service::HideFolders(info);
  }
  deps_.metrics->CountRequest("GetInfo", caller.status().code(), MonotonicNow() - arrival);
  return AnswerNow(deps_.calls, caller.status());
}

}  // namespace maxsim::rpc
