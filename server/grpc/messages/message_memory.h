// What a message takes in memory once it is parsed, told from its bytes before protobuf allocates anything: an empty
// query is 2 bytes on the wire and some 100 parsed.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/support/byte_buffer.h"

namespace maxsim::rpc {

// A parsed message may take this much, and so many times its bytes more. The first lets a list of a million ids of one
// letter through (limits.max_candidates_per_query), the second any number of ids of eight letters.
inline constexpr uint64_t kFreeParsedBytes = uint64_t{64} << 20;
inline constexpr uint64_t kParsedBytesPerByte = 6;

// OK where `buffer`, as a message of `type`, takes no more than that when it is parsed. INVALID_ARGUMENT that names the
// field where it becomes more, or says that the bytes are no message. A message of up to a MiB is OK without a look: it
// cannot come to 64 MiB. Time is linear in the number of fields and stops where the bound is passed. Thread-safe.
absl::Status CheckParsedMemory(const grpc::ByteBuffer& buffer, const google::protobuf::Descriptor* type);

// Returns the bytes that CheckParsedMemory compares with its bound, of a message of any size: no less than protobuf
// takes.
uint64_t EstimateParsedBytes(const grpc::ByteBuffer& buffer, const google::protobuf::Descriptor* type);

}  // namespace maxsim::rpc
