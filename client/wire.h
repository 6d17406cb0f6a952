// What the two kinds of CallQueue share: messages as gRPC's buffers hold them.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "client/options.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace maxsim::client {

// Value of the header `authorization`; empty without a token.
std::string AuthorizationOf(const ClientOptions& options);

// CompletionQueue::AsyncNext with abseil's time; InfiniteFuture blocks.
grpc::CompletionQueue::NextStatus NextOf(grpc::CompletionQueue& queue, absl::Time deadline, void** tag, bool* ok);

// False where `buffer` is no such message. What `message` held is replaced, its memory kept.
template <typename Message>
bool ParseMessage(grpc::ByteBuffer& buffer, Message& message) {
  grpc::ProtoBufferReader reader(&buffer);
  return reader.status().ok() && message.ParseFromZeroCopyStream(&reader);
}

}  // namespace maxsim::client
