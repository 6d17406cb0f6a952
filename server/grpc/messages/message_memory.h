// Estimates how much memory a message would take once it is parsed, from its bytes, before protobuf allocates any. A
// small message can take much: an empty query is 2 bytes on the wire and about 100 bytes parsed.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/support/byte_buffer.h"

namespace maxsim::rpc {

// A parsed message may take kFreeParsedBytes plus kParsedBytesPerByte times its size on the wire. kFreeParsedBytes is
// enough for a million ids of one letter (the largest limits.max_candidates_per_query), kParsedBytesPerByte for any
// number of ids of eight letters.
inline constexpr uint64_t kFreeParsedBytes = uint64_t{64} << 20;
inline constexpr uint64_t kParsedBytesPerByte = 6;

// Returns OK if `buffer`, parsed as a message of `type`, stays within the limit given by the two constants above.
// Otherwise returns INVALID_ARGUMENT naming the field that exceeds the limit, or saying that the bytes are no message.
// Accepts a message of up to 1 MiB without reading it, because it cannot take 64 MiB. Takes time linear in the number
// of fields, and stops when the limit is exceeded. Thread-safe.
absl::Status CheckParsedMemory(const grpc::ByteBuffer& buffer, const google::protobuf::Descriptor* type);

// Returns the estimate that CheckParsedMemory compares with the limit, for a message of any size. It is an upper bound
// of the bytes that protobuf takes.
uint64_t EstimateParsedBytes(const grpc::ByteBuffer& buffer, const google::protobuf::Descriptor* type);

}  // namespace maxsim::rpc
