// The one place where the server's errors become what a client sees: gRPC status, HTTP code, retry hint.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/support/status.h"

namespace maxsim::rpc {

// Trailing metadata that gRPC's own retries obey: milliseconds as text.
inline constexpr char kPushbackKey[] = "grpc-retry-pushback-ms";

// INVALID_ARGUMENT about one field of a request, "queries[3].weights" for example.
absl::Status InvalidField(std::string_view path, std::string_view message);

// Attaches a google.rpc.RetryInfo (as the payload of that type) to a status that is not OK.
void SetRetryDelay(absl::Duration delay, absl::Status& status);

// Milliseconds of the attached RetryInfo, rounded up; 0 when there is none.
uint32_t RetryDelayMs(const absl::Status& status);

// Codes are equal by number. A status with payloads carries them as a serialised google.rpc.Status in its error details
// (the `grpc-status-details-bin` trailer).
grpc::Status ToGrpc(const absl::Status& status);

// What went wrong for a client that sent the request cannot be told from what went wrong inside by number alone:
// storage damage (DATA_LOSS) and the like are 500.
int ToHttp(absl::StatusCode code);

// "INVALID_ARGUMENT" and so on.
std::string CodeName(absl::StatusCode code);

}  // namespace maxsim::rpc
