#include "server/grpc/grpc_reranker.h"

#include <atomic>
#include <memory>
#include <utility>

#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "client/status.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/message_buffer.h"
#include "server/service/info.h"
#include "server/service/status.h"

namespace maxsim::rpc {
namespace {

constexpr char kRerank[] = "Rerank";  // as the metrics name it

// Handles one Rerank call.
class RerankCall : public UnaryCall {
 public:
  RerankCall(service::CallTracker* tracker, AnswerBudget* answers, grpc::CallbackServerContext* context,
             grpc::ByteBuffer* response)
      : UnaryCall(tracker), context_(context), response_(response), account_(answers, context) {}

  void Start(service::RerankService& service, v1::RerankRequest request, absl::Time arrival, uint64_t client) {
    service.Rerank(std::move(request),
                   {.method = kRerank,
                    .arrival = arrival,
                    .deadline = DeadlineOf(*context_),
                    .client = client,
                    .cancelled = cancelled_,
                    .may_be_held_up = true},
                   [this](absl::StatusOr<v1::RerankResponse> response) { Answer(std::move(response)); });
  }

  void OnCancel() override { cancelled_->store(true, std::memory_order_relaxed); }

 private:
  void Answer(absl::StatusOr<v1::RerankResponse> response) {
    const absl::Status status = Guarded([&] {
      if (response.ok()) *response_ = ToBuffer(*response);
      return response.status();
    });
    // Until gRPC has let go of the call, and with it of the answer.
    if (status.ok()) account_.Add(response_->Length());
    AddTrailers(status, *context_);
    Finish(client::ToGrpcStatus(status));  // `this` may be gone from here on
  }

  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  AnswerBudget::Account account_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

// Answers a call that needs no waiting.
grpc::ServerUnaryReactor* AnswerNow(service::CallTracker* tracker, const absl::Status& status) {
  auto* call = new UnaryCall(tracker);
  call->Finish(client::ToGrpcStatus(status));
  return call;
}

}  // namespace

grpc::ServerUnaryReactor* GrpcReranker::Rerank(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) {
  const service::CallTracker::Call arriving(deps_.calls);  // already while it is parsed
  const absl::Time arrival = MonotonicNow();
  if (absl::Status status = Authenticate(*deps_.authenticator, *context, service::Scope::kSearch); !status.ok()) {
    deps_.metrics->CountRequest(kRerank, status.code(), MonotonicNow() - arrival);
    return AnswerNow(deps_.calls, status);
  }
  v1::RerankRequest parsed;
  if (absl::Status status = ParseMessage(*request, parsed); !status.ok()) {
    deps_.rerank->CountUnread(kRerank, arrival, status);
    return AnswerNow(deps_.calls, status);
  }
  // gRPC would keep the bytes until the call has been answered. They are this call's own, and it reads them no more.
  const_cast<grpc::ByteBuffer*>(request)->Clear();
  auto* call = new RerankCall(deps_.calls, &answers_, context, response);
  call->Start(*deps_.rerank, std::move(parsed), arrival, ClientOf(*context, deps_.client_key));
  return call;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* GrpcReranker::RerankStream(
    grpc::CallbackServerContext* context) {
  // The token is checked again for each request, since a stream may be open for longer than its token is good.
  const auto admit = [this, context] {
    const absl::Time arrival = MonotonicNow();
    absl::Status status = Authenticate(*deps_.authenticator, *context, service::Scope::kSearch);
    if (!status.ok()) deps_.metrics->CountRequest("RerankStream", status.code(), MonotonicNow() - arrival);
    return status;
  };
  return StartRerankStream(context, deps_.rerank, admit, ClientOf(*context, deps_.client_key), deps_.stream_in_flight,
                           &answers_, &streams_, deps_.calls);
}

grpc::ServerUnaryReactor* GrpcReranker::GetInfo(grpc::CallbackServerContext* context, const v1::GetInfoRequest*,
                                                v1::GetInfoResponse* response) {
  const absl::Time arrival = MonotonicNow();
  absl::Status status = Authenticate(*deps_.authenticator, *context, service::Scope::kSearch);
  if (status.ok())
    *response = service::BuildInfo(*deps_.devices, *deps_.store, deps_.rerank->limits(), deps_.max_queue_work,
                                   deps_.rerank->encoder());
  deps_.metrics->CountRequest("GetInfo", status.code(), MonotonicNow() - arrival);
  return AnswerNow(deps_.calls, status);
}

}  // namespace maxsim::rpc
