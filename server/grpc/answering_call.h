// The gRPC reactor of a unary call that a service answers.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "client/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/messages/answer_budget.h"
#include "server/grpc/messages/message_buffer.h"
#include "server/service/call/call_record.h"
#include "server/service/call/call_tracker.h"
#include "server/service/hidden_folders.h"

namespace maxsim::rpc {

// Create it with new. It deletes itself once gRPC has released the call. That may happen even before Answer returns.
class AnsweringCall : public UnaryCall {
 public:
  AnsweringCall(service::CallTracker* tracker, AnswerBudget* answers, grpc::CallbackServerContext* context,
                grpc::ByteBuffer* response)
      : UnaryCall(tracker), context_(context), response_(response), account_(answers, context) {}

  // The service fills the record; Answer or OnDone writes it.
  service::CallRecord* record() { return &record_; }

  // Becomes true when the call is cancelled: no client waits for the answer.
  const std::shared_ptr<std::atomic<bool>>& cancelled() const { return cancelled_; }

  void OnCancel() override { cancelled_->store(true, std::memory_order_relaxed); }

  void OnDone() override {
    record_.Write(Guarded([&] { return CheckClient(); }));
    UnaryCall::OnDone();  // deletes `this`
  }

  // Ends the call. Must be called once, from any thread.
  template <typename Response>
  void Answer(const absl::StatusOr<Response>& response) {
    const absl::Status status = Guarded([&] {
      if (!response.ok()) return response.status();
      *response_ = ToBuffer(*response);
      // The answer counts as unread until gRPC has released the call.
      account_.Add(response_->Length());
      return absl::OkStatus();
    });
    AddTrailers(status, *context_);
    // Whether the client gets an answer of more than kSentAtOnceBytes is known only in OnDone, which then writes the
    // record (metrics, log line).
    if (status.ok() && response_->Length() > kSentAtOnceBytes) {
      record_.EndTime();
    } else {
      record_.Write(status.ok() ? Guarded([&] { return CheckClient(); }) : status);
    }
    Finish(client::ToGrpcStatus(service::ForClient(status)));  // may delete `this`
  }

 private:
  // Returns OK if the client gets the answer. If gRPC ended the call before that, returns the status that the client
  // got instead.
  absl::Status CheckClient() const {
    if (absl::Status ended = account_.ended(); !ended.ok()) return ended;
    if (!cancelled_->load(std::memory_order_relaxed)) return absl::OkStatus();
    if (MonotonicNow() >= DeadlineOf(*context_))
      return absl::DeadlineExceededError("the answer came after the deadline");
    return absl::CancelledError("the client cancelled the call");
  }

  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const response_;
  AnswerBudget::Account account_;
  service::CallRecord record_;
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

// Ends a call with `status`, without an answer.
inline grpc::ServerUnaryReactor* AnswerNow(service::CallTracker* tracker, const absl::Status& status) {
  auto* call = new UnaryCall(tracker);
  call->Finish(client::ToGrpcStatus(status));
  return call;
}

}  // namespace maxsim::rpc
