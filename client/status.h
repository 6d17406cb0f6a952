// absl::Status <-> grpc::Status, with what a server says about trying again.
//
// Codes are equal by number. The details of a status (the `grpc-status-details-bin` trailer, a google.rpc.Status)
// become payloads of the absl::Status, keyed by type URL, and the way back writes them again. All functions are
// thread-safe.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/error_details.h"
#include "grpcpp/support/status.h"

namespace maxsim::client {

// Key of the payload that holds a google.rpc.RetryInfo.
inline constexpr char kRetryInfoTypeUrl[] = "type.googleapis.com/google.rpc.RetryInfo";

// Details that do not parse are dropped; code and message always survive. A code outside the known ones is UNKNOWN. An
// error that gRPC itself made, because it had no connection, gets the reason NOT_CONNECTED (client/error_details.h).
absl::Status FromGrpcStatus(const grpc::Status& status);
// A detail of more than 1 KiB is left out, because clients refuse trailers of more than 8 KiB. Only a field with a long
// description stays: its description is cut. FromGrpcStatus restores it from the message.
grpc::Status ToGrpcStatus(const absl::Status& status);

// Returns the delay of the status's RetryInfo; nullopt if it has none, or one that is negative or malformed.
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// Adds a RetryInfo to a status that is not OK, replacing one that is there.
void SetRetryAfter(absl::Duration delay, absl::Status& status);

// Marks the error of a failed write. Nothing was or will be written, so that the client may send the write to another
// server without writing it twice. Does nothing to an OK status.
void SetNothingWritten(absl::Status& status);
// Returns whether a status has that mark.
bool IsNothingWritten(const absl::Status& status);

}  // namespace maxsim::client
