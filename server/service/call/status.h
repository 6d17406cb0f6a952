// Makes errors that say which field is wrong, or when to try again.
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

// Returns OK if the server takes new calls in this state. Otherwise returns UNAVAILABLE with a message for clients.
absl::Status CheckServing(ServingState state);

// Returns OK if the client still waits for the answer. Returns CANCELLED if it has cancelled the call, and
// DEADLINE_EXCEEDED with the message "the deadline passed" and `when` if the deadline has passed.
absl::Status CheckAwaited(const CallContext& context, std::string_view when);
inline constexpr std::string_view kWhileFiltering = "while the filter was evaluated";

// Returns the milliseconds of the status's google.rpc.RetryInfo (client/status.h), rounded up. Returns 0 if it has
// none.
uint32_t RetryDelayMs(const absl::Status& status);

// Returns "INVALID_ARGUMENT" and so on.
std::string CodeName(absl::StatusCode code);

}  // namespace maxsim::service
