// Estimates from the bytes of a message how much memory it takes once it is parsed, before protobuf allocates anything:
// an empty query is 2 bytes on the wire and about 100 parsed.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/support/byte_buffer.h"

namespace maxsim::rpc {

// A parsed message may take kFreeParsedBytes plus kParsedBytesPerByte times its size. The first admits a million ids of
// one letter (limits.max_candidates_per_query), the second any number of ids of eight letters.
inline constexpr uint64_t kFreeParsedBytes = uint64_t{64} << 20;
inline constexpr uint64_t kParsedBytesPerByte = 6;

// OK if `buffer`, parsed as a message of `type`, takes no more than that. INVALID_ARGUMENT names the field that exceeds
// the bound, or says that the bytes are no message. A message of up to 1 MiB is OK unseen, since it cannot take 64 MiB.
// The time is linear in the number of fields, and it stops at the bound. Thread-safe.
absl::Status CheckParsedMemory(const grpc::ByteBuffer& buffer, const google::protobuf::Descriptor* type);

// Returns the bytes that CheckParsedMemory compares with its bound, for a message of any size. They are at least what
// protobuf takes.
uint64_t EstimateParsedBytes(const grpc::ByteBuffer& buffer, const google::protobuf::Descriptor* type);

}  // namespace maxsim::rpc
