// Converts absl::Status to grpc::Status and back, and reads a server's hint when to try again.
//
// Codes are equal by number. The details of a grpc::Status (the trailer `grpc-status-details-bin`, a google.rpc.Status)
// become payloads of the absl::Status, keyed by type URL. The other direction turns payloads into details. All
// functions are thread-safe.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/error_details.h"
#include "grpcpp/support/status.h"

namespace maxsim::client {

// Key of the payload that holds a google.rpc.RetryInfo.
inline constexpr char kRetryInfoTypeUrl[] = "type.googleapis.com/google.rpc.RetryInfo";

// Converts a status of gRPC. Drops details that do not parse, but keeps code and message in all cases. A code that is
// not known becomes UNKNOWN. If gRPC itself made the error because it had no connection, the error gets the reason
// NOT_CONNECTED (client/error_details.h).
absl::Status FromGrpcStatus(const grpc::Status& status);
// Converts a status to gRPC's. Leaves out details of more than 1 KiB, because clients refuse trailers of more than 8
// KiB. There is one exception: a BadRequest stays, and the description of its field is cut. FromGrpcStatus restores
// this description from the message.
grpc::Status ToGrpcStatus(const absl::Status& status);

// Returns the delay of the status's RetryInfo; nullopt if it has none, or one that is negative or malformed.
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// Sets the RetryInfo of a status that is not OK, and replaces an earlier one.
void SetRetryAfter(absl::Duration delay, absl::Status& status);

// Marks the error of a failed write as one after which nothing was or will be written. With this mark, a client may
// send the write to another server without writing it twice. Does nothing to an OK status.
void SetNothingWritten(absl::Status& status);
// Returns whether a status has that mark.
bool IsNothingWritten(const absl::Status& status);

}  // namespace maxsim::client
