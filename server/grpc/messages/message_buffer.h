// Parses and serialises messages in gRPC's buffers. The services take requests as raw bytes and parse them here. gRPC
// itself would answer an invalid request with a bare UNIMPLEMENTED, or treat it as the end of the stream.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"
#include "server/grpc/messages/message_memory.h"

namespace maxsim::rpc {

// Parses `buffer` into `message`, which must be empty. Returns INVALID_ARGUMENT if the bytes are not a message of this
// type, or if it would take many times their size in memory (message_memory.h). Returns RESOURCE_EXHAUSTED if there is
// no memory for the message. After an error the contents of `message` are unspecified.
template <typename Message>
absl::Status ParseMessage(const grpc::ByteBuffer& buffer, Message& message) {
  return Guarded([&] {
    if (absl::Status status = CheckParsedMemory(buffer, Message::descriptor()); !status.ok()) return status;
    grpc::ByteBuffer bytes(buffer);  // shares the bytes; the reader needs a buffer that it may change
    grpc::ProtoBufferReader reader(&bytes);
    if (reader.status().ok() && message.ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the message of ", buffer.Length(), " bytes is not a ",
                                                   std::string(message.GetTypeName()),
                                                   ": it is malformed, or one of its strings is not UTF-8"));
  });
}

// Answers of at least this size are allocated with `new`, because it throws on failure, which the caller can catch.
inline constexpr size_t kOwnAllocationBytes = size_t{64} << 10;

// Serialises a message. Throws std::bad_alloc if memory runs out. The message must be smaller than 2 GiB, which
// limits.max_answer_bytes ensures.
template <typename Message>
grpc::ByteBuffer ToBuffer(const Message& message) {
  const size_t size = message.ByteSizeLong();
  grpc::Slice slice = size < kOwnAllocationBytes
                          ? grpc::Slice(size)
                          : grpc::Slice(::operator new(size), size, [](void* data) { ::operator delete(data); });
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace maxsim::rpc
