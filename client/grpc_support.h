// Shared by the Client and both kinds of CallQueue: the metadata that every call carries, and messages in gRPC's
// buffers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/options.h"
#include "grpc/support/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace maxsim::client {

// Adds the metadata of every call: the bearer token and the client's name, if the options have them. The object is
// immutable.
class CallMetadata {
 public:
  explicit CallMetadata(const ClientOptions& options);

  // Adds the metadata to a call that has not begun.
  void AddTo(grpc::ClientContext& context) const;

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

// Converts a time of MonotonicNow() for gRPC, to a clock that does not jump when the wall clock is set.
gpr_timespec ToGrpcTime(absl::Time time);

// Calls CompletionQueue::AsyncNext with a time of MonotonicNow(). InfiniteFuture blocks.
grpc::CompletionQueue::NextStatus NextEvent(grpc::CompletionQueue& queue, absl::Time deadline, void** tag, bool* ok);

// Parses `buffer` into `message`, whose memory is reused. Returns false if `buffer` does not hold a message of this
// type.
template <typename Message>
bool ParseMessage(grpc::ByteBuffer& buffer, Message& message) {
  grpc::ProtoBufferReader reader(&buffer);
  return reader.status().ok() && message.ParseFromZeroCopyStream(&reader);
}

}  // namespace maxsim::client
