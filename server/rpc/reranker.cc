#include "server/rpc/reranker.h"

#include <atomic>
#include <memory>
#include <utility>

#include "server/rpc/grpc_call.h"
#include "server/rpc/info.h"
#include "server/rpc/status.h"

namespace maxsim::rpc {
namespace {

// One Rerank call. Deletes itself when gRPC has let go of it.
class RerankCall : public grpc::ServerUnaryReactor {
 public:
  RerankCall(grpc::CallbackServerContext* context, v1::RerankResponse* response)
      : context_(context), response_(response) {}

  void Start(RerankService& service, const v1::RerankRequest& request, absl::Time arrival) {
    service.Rerank(request,
                   {.method = "Rerank", .arrival = arrival, .deadline = DeadlineOf(*context_), .cancelled = cancelled_},
                   [this](absl::StatusOr<v1::RerankResponse> response) { Answer(std::move(response)); });
  }

  void OnCancel() override { cancelled_->store(true, std::memory_order_relaxed); }
  void OnDone() override { delete this; }

 private:
  void Answer(absl::StatusOr<v1::RerankResponse> response) {
    const absl::Status status = response.status();
    if (status.ok()) *response_ = *std::move(response);
    AddTrailers(status, *context_);
    Finish(ToGrpc(status));  // `this` may be gone from here on
  }

  grpc::CallbackServerContext* const context_;
  v1::RerankResponse* const response_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

// Answers a call that needs no waiting.
grpc::ServerUnaryReactor* AnswerNow(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* Reranker::Rerank(grpc::CallbackServerContext* context, const v1::RerankRequest* request,
                                           v1::RerankResponse* response) {
  const absl::Time arrival = absl::Now();
  if (absl::Status status = Authenticate(*deps_.authenticator, *context); !status.ok()) {
    deps_.metrics->CountRequest("Rerank", status.code(), absl::Now() - arrival);
    return AnswerNow(context, status);
  }
  auto* call = new RerankCall(context, response);
  call->Start(*deps_.rerank, *request, arrival);
  return call;
}

grpc::ServerBidiReactor<v1::RerankRequest, v1::RerankStreamResponse>* Reranker::RerankStream(
    grpc::CallbackServerContext* context) {
  return StartRerankStream(context, deps_.rerank, Authenticate(*deps_.authenticator, *context), deps_.stream_in_flight,
                           &streams_);
}

grpc::ServerUnaryReactor* Reranker::GetInfo(grpc::CallbackServerContext* context, const v1::GetInfoRequest*,
                                            v1::GetInfoResponse* response) {
  const absl::Time arrival = absl::Now();
  absl::Status status = Authenticate(*deps_.authenticator, *context);
  if (status.ok()) *response = BuildInfo(*deps_.backend, *deps_.store, deps_.rerank->limits(), deps_.max_queue_work);
  deps_.metrics->CountRequest("GetInfo", status.code(), absl::Now() - arrival);
  return AnswerNow(context, status);
}

}  // namespace maxsim::rpc
