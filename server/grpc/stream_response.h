// The messages that answer the requests of RerankStream.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/grpc/messages/message_buffer.h"
#include "server/service/call/status.h"
#include "server/service/hidden_folders.h"

namespace maxsim::rpc {

// Returns the message that answers a request with a response or an error.
inline grpc::ByteBuffer ToStreamResponse(const std::string& request_id, absl::StatusOr<v1::RerankResponse> response) {
  v1::RerankStreamResponse answer;
  answer.set_request_id(request_id);
  answer.set_code(static_cast<int32_t>(response.status().code()));
  if (response.ok()) {
    *answer.mutable_response() = *std::move(response);
  } else {
    const grpc::Status status = client::ToGrpcStatus(service::ForClient(response.status()));
    answer.set_message(status.error_message());
    answer.set_status_details(status.error_details());
    answer.set_retry_after_ms(service::RetryDelayMs(response.status()));
  }
  return ToBuffer(answer);
}

}  // namespace maxsim::rpc
