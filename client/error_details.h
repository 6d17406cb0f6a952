// The details of an error, in addition to its code and message: which field is wrong, the reason, and which limit the
// field exceeds.
//
// Programs read the details; the message is for people only. Details are payloads of the absl::Status: a
// google.rpc.BadRequest with the field, and a google.rpc.ErrorInfo with the reason and, in its metadata, the limit.
// Over gRPC they travel in the trailer `grpc-status-details-bin` (client/status.h), over HTTP as members of the object
// `error`.
//
// The message of an error with a field is always "FIELD: PROBLEM". To keep it so, change its field or text only with
// WithField, WithAddition or WithText. All functions are thread-safe.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace maxsim::client {

// Keys of the payloads.
inline constexpr char kBadRequestTypeUrl[] = "type.googleapis.com/google.rpc.BadRequest";
inline constexpr char kErrorInfoTypeUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";

// The reasons, in the domain "maxsim". docs/reference/errors.md says when each comes.
inline constexpr std::string_view kReasonInvalidField = "INVALID_FIELD";
inline constexpr std::string_view kReasonLimitExceeded = "LIMIT_EXCEEDED";
inline constexpr std::string_view kReasonUnknownIds = "UNKNOWN_IDS";
inline constexpr std::string_view kReasonOtherGeneration = "OTHER_GENERATION";
inline constexpr std::string_view kReasonOtherSlots = "OTHER_SLOTS";
inline constexpr std::string_view kReasonOtherRevision = "OTHER_REVISION";
inline constexpr std::string_view kReasonSequenceNotReached = "SEQUENCE_NOT_REACHED";
inline constexpr std::string_view kReasonDocumentsReplaced = "DOCUMENTS_REPLACED";
inline constexpr std::string_view kReasonDeviceLost = "DEVICE_LOST";
inline constexpr std::string_view kReasonOutsideAllowedRoots = "OUTSIDE_ALLOWED_ROOTS";
inline constexpr std::string_view kReasonNothingWritten = "NOTHING_WRITTEN";
inline constexpr std::string_view kReasonPartlyDeleted = "PARTLY_DELETED";
inline constexpr std::string_view kReasonNotConnected = "NOT_CONNECTED";
inline constexpr std::string_view kReasonTenantQuota = "TENANT_QUOTA";

// A limit that a value breaks: the largest accepted value, the value that was sent, and the configuration key that sets
// the limit ("" for a constant). Numbers are 0 or more.
struct Limit {
  // Leaves out the value that was sent. For a value that was not read to its end.
  Limit(std::integral auto of_max, std::string_view of_key) : max(static_cast<uint64_t>(of_max)), key(of_key) {}
  Limit(std::integral auto of_max, std::integral auto sent, std::string_view of_key = {})
      : max(static_cast<uint64_t>(of_max)), value(static_cast<uint64_t>(sent)), key(of_key) {}

  uint64_t max;
  std::optional<uint64_t> value = {};
  std::string_view key;
};

// Functions that make errors are marked cold: the compiler then moves the code that calls them out of the way of the
// code that runs in every request, so that a request touches fewer cache lines and pages.

// Returns an error about a field, with the message "FIELD: PROBLEM".
[[gnu::cold]] absl::Status FieldError(absl::StatusCode code, std::string_view reason, std::string_view field,
                                      std::string_view problem);

// Return INVALID_ARGUMENT about a field. The reason is INVALID_FIELD or, with a limit, LIMIT_EXCEEDED.
[[gnu::cold]] absl::Status InvalidField(std::string_view field, std::string_view problem);
[[gnu::cold]] absl::Status InvalidField(std::string_view field, std::string_view problem, const Limit& limit);

// Sets the reason of a status that is not OK. Replaces the reason and the limit that it had.
void SetReason(std::string_view reason, absl::Status& status);

// Sets the reason PARTLY_DELETED and the number of documents that a failed delete has deleted, on a status that is not
// OK. Replaces the reason and the limit that it had.
void SetPartlyDeleted(uint64_t num_deleted, absl::Status& status);
// Returns the number of documents that SetPartlyDeleted has set, or nullopt if the status has no such number or a
// malformed one.
std::optional<uint64_t> NumDeletedOf(const absl::Status& status);

// Return the path of the field, the reason, the largest accepted value, and the configuration key that sets that limit.
// They return "" or nullopt if the status does not have the detail, if the detail is malformed, or if its ErrorInfo has
// another domain.
std::string FieldOf(const absl::Status& status);
std::string ReasonOf(const absl::Status& status);
std::optional<uint64_t> LimitOf(const absl::Status& status);
std::string LimitKeyOf(const absl::Status& status);

// Returns the error with its field replaced by `field`, in the details and in the message. If the error has no field,
// adds the field to the details and "FIELD: " before the message. Changes nothing else.
absl::Status WithField(const absl::Status& status, std::string_view field);

// Returns the error with more text at the end of its message.
absl::Status WithAddition(const absl::Status& status, std::string_view addition);

// Returns the error with `change` applied to its message and, if it has a field, also to the description in its
// BadRequest.
absl::Status WithText(const absl::Status& status, absl::FunctionRef<std::string(std::string_view)> change);

}  // namespace maxsim::client
