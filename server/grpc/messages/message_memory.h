// Estimates from the bytes of a message how much memory it would take once parsed, before protobuf allocates any. A
// small message can take much: an empty query is 2 bytes on the wire and about 100 bytes parsed.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/support/byte_buffer.h"

namespace maxsim::rpc {

// A parsed message may take kFreeParsedBytes plus kParsedBytesPerByte times its size on the wire. kFreeParsedBytes is
// large enough for a million ids of one letter (limits.max_candidates_per_query), kParsedBytesPerByte for any number of
// ids of eight letters.
inline constexpr uint64_t kFreeParsedBytes = uint64_t{64} << 20;
inline constexpr uint64_t kParsedBytesPerByte = 6;

// Returns OK if `buffer`, parsed as a message of `type`, stays within this bound. Otherwise returns INVALID_ARGUMENT
// naming the field that exceeds the bound, or saying that the bytes are no message. Accepts a message of up to 1 MiB
// without reading it, since it cannot take 64 MiB. Takes time linear in the number of fields, and stops when the bound
// is exceeded. Thread-safe.
absl::Status CheckParsedMemory(const grpc::ByteBuffer& buffer, const google::protobuf::Descriptor* type);

// Returns the estimate that CheckParsedMemory compares with its bound, for a message of any size. protobuf takes at
// most this many bytes.
uint64_t EstimateParsedBytes(const grpc::ByteBuffer& buffer, const google::protobuf::Descriptor* type);

}  // namespace maxsim::rpc
