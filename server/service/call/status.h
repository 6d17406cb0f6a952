// Makes the errors of requests, for both ports. An error says which field is wrong, or when to try again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/error_details.h"
#include "server/service/call/call_context.h"

namespace maxsim::service {

// Trailing metadata that gRPC's own retries obey: milliseconds as text.
inline constexpr char kPushbackKey[] = "grpc-retry-pushback-ms";

// Errors about one field of a request, "queries[3].weights" for example.
using client::FieldError;
using client::InvalidField;
using client::Limit;

// Returns OK if new calls are served, or else UNAVAILABLE with a message for their clients.
absl::Status CheckServing(ServingState state);

// Returns CANCELLED if the client has gone, DEADLINE_EXCEEDED if the call's deadline has passed. The latter's message
// is "the deadline passed" followed by `when`.
absl::Status CheckAwaited(const CallContext& context, std::string_view when);
inline constexpr std::string_view kWhileFiltering = "while the filter was evaluated";

// Returns the milliseconds of the status's google.rpc.RetryInfo (client/status.h), rounded up; 0 when it has none.
uint32_t RetryDelayMs(const absl::Status& status);

// Returns "INVALID_ARGUMENT" and so on.
std::string CodeName(absl::StatusCode code);

}  // namespace maxsim::service
