// Messages as gRPC's buffers hold them. The services take their requests raw: of one that cannot be parsed gRPC would
// say UNIMPLEMENTED without a word, and in a stream take it for the end.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"

namespace maxsim::rpc {

// INVALID_ARGUMENT where `buffer` is no such message. `message` must be empty.
template <typename Message>
absl::Status ParseMessage(const grpc::ByteBuffer& buffer, Message& message) {
  grpc::ByteBuffer bytes(buffer);  // the same ones: a reader wants a buffer that it may change
  grpc::ProtoBufferReader reader(&bytes);
  if (reader.status().ok() && message.ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the message of ", buffer.Length(), " bytes is no ",
                                                 std::string(message.GetTypeName()),
                                                 ": it is malformed, or one of its strings is not UTF-8"));
}

// `message` has less than 2 GiB, as limits.max_answer_bytes sees to.
template <typename Message>
grpc::ByteBuffer ToBuffer(const Message& message) {
  grpc::Slice slice(message.ByteSizeLong());
  message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace maxsim::rpc
