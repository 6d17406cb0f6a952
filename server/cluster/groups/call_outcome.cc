#include "server/cluster/groups/call_outcome.h"

#include <string>

#include "client/error_details.h"
#include "client/status.h"

namespace maxsim::cluster {

bool IsFault(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return !client::RetryAfter(status).has_value();
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnknown:
      return true;
    default:
      return false;
  }
}

bool IsOtherGeneration(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) && client::ReasonOf(status) == client::kReasonOtherGeneration;
}

bool IsOtherSlots(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) && client::ReasonOf(status) == client::kReasonOtherSlots &&
         client::FieldOf(status) != "filter";
}

// Unknown ids have a reason, an unknown collection has none.
bool IsNotServed(const absl::Status& status) { return absl::IsNotFound(status) && client::ReasonOf(status).empty(); }

bool IsOtherView(const absl::Status& status) {
  return IsOtherGeneration(status) || IsOtherSlots(status) || IsNotServed(status);
}

bool IsSafeToRepeat(const absl::Status& status) {
  const std::string reason = client::ReasonOf(status);
  return reason == client::kReasonNothingWritten || reason == client::kReasonNotConnected || IsOtherSlots(status) ||
         IsNotServed(status);
}

absl::Status WriteErrorOf(const absl::Status& status) {
  if (!IsOtherSlots(status) && !IsNotServed(status)) return status;
  absl::Status error = absl::UnavailableError(status.message());
  client::SetNothingWritten(error);
  return error;
}

bool MayAskAnother(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kCancelled:  // The replica cancelled, not the client (GroupCallOptions::cancelled).
      return true;
    case absl::StatusCode::kResourceExhausted:
      return client::RetryAfter(status).has_value();
    default:
      return IsOtherView(status);
  }
}

bool MayStillHappen(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kCancelled:
      // gRPC's own errors have no details, but those of a replica for a write have.
      return client::ReasonOf(status).empty() && !client::RetryAfter(status).has_value();
    default:
      return false;
  }
}

}  // namespace maxsim::cluster
