#include "server/service/call/concurrency_limit.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/status.h"

namespace maxsim::service {

absl::StatusOr<std::shared_ptr<const void>> ConcurrencyLimit::Take() {
  std::shared_ptr<const void> place = TryTake();
  if (place != nullptr) return place;
  absl::Status status =
      absl::ResourceExhaustedError(absl::StrCat(limit_, " ", calls_, " are in progress, which is the limit"));
  client::SetRetryAfter(retry_delay_, status);
  return status;
}

}  // namespace maxsim::service
