// Parses and serialises messages as gRPC's buffers hold them. The services take their requests raw: of one that cannot
// be parsed gRPC would say UNIMPLEMENTED without a word, and in a stream take it for the end.
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

// INVALID_ARGUMENT where `buffer` is no such message, or one that would take many times its bytes of memory
// (message_memory.h); RESOURCE_EXHAUSTED where there is no memory for it. `message` must be empty, and holds anything
// after an error.
template <typename Message>
absl::Status ParseMessage(const grpc::ByteBuffer& buffer, Message& message) {
  return Guarded([&] {
    if (absl::Status status = CheckParsedMemory(buffer, Message::descriptor()); !status.ok()) return status;
    grpc::ByteBuffer bytes(buffer);  // the same ones: a reader wants a buffer that it may change
    grpc::ProtoBufferReader reader(&bytes);
    if (reader.status().ok() && message.ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the message of ", buffer.Length(), " bytes is no ",
                                                   std::string(message.GetTypeName()),
                                                   ": it is malformed, or one of its strings is not UTF-8"));
  });
}

// An answer of this size has memory of its own: where there is none, that is an exception which the caller can catch.
inline constexpr size_t kOwnAllocationBytes = size_t{64} << 10;

// Throws std::bad_alloc. `message` has less than 2 GiB, as limits.max_answer_bytes sees to.
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
