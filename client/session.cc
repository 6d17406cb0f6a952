#include "client/session.h"

#include "client/status.h"

namespace maxsim::client {

RerankSession::~RerankSession() {
  if (finished_ || stream_ == nullptr) return;
  // gRPC requires that a stream is read to its end and finished before its context is destroyed.
  context_.TryCancel();
  v1::RerankStreamResponse ignored;
  while (stream_->Read(&ignored)) {
  }
  stream_->Finish();
}

absl::Status RerankSession::Send(const v1::RerankRequest& request) {
  absl::MutexLock lock(&send_mutex_);
  if (sends_closed_) return absl::FailedPreconditionError("the session's sending side is closed");
  if (!stream_->Write(request)) return absl::UnavailableError("the stream has ended; Finish() has the reason");
  return absl::OkStatus();
}

void RerankSession::CloseSends() {
  absl::MutexLock lock(&send_mutex_);
  if (sends_closed_) return;
  sends_closed_ = true;
  stream_->WritesDone();
}

bool RerankSession::Receive(v1::RerankStreamResponse& response) { return stream_->Read(&response); }

absl::Status RerankSession::Finish() {
  finished_ = true;
  return FromGrpcStatus(stream_->Finish());
}

void RerankSession::Cancel() { context_.TryCancel(); }

absl::Status StatusOf(const v1::RerankStreamResponse& response) {
  if (response.code() == 0) return absl::OkStatus();
  absl::Status status = FromGrpcStatus(
      grpc::Status(static_cast<grpc::StatusCode>(response.code()), response.message(), response.status_details()));
  if (response.retry_after_ms() > 0) SetRetryAfter(absl::Milliseconds(response.retry_after_ms()), status);
  return status;
}

}  // namespace maxsim::client
