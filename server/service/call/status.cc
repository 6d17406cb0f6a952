#include "server/service/call/status.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "client/status.h"

namespace maxsim::service {

absl::Status CheckServing(ServingState state) {
  switch (state) {
    case ServingState::kServing:
      return absl::OkStatus();
    case ServingState::kLoading:
      return absl::UnavailableError("the server is loading");
    case ServingState::kDraining:
      break;
  }
  return absl::UnavailableError("the server is draining");
}

absl::Status CheckAwaited(const CallContext& context, std::string_view when) {
  if (context.cancelled != nullptr && *context.cancelled) return absl::CancelledError("the client cancelled the call");
  if (MonotonicNow() < context.deadline) return absl::OkStatus();
  return absl::DeadlineExceededError(Cat("the deadline passed ", when));
}

uint32_t RetryDelayMs(const absl::Status& status) {
  const std::optional<absl::Duration> delay = client::RetryAfter(status);
  if (!delay.has_value()) return 0;
  return static_cast<uint32_t>(
      std::min<int64_t>(absl::ToInt64Milliseconds(absl::Ceil(*delay, absl::Milliseconds(1))), UINT32_MAX));
}

std::string CodeName(absl::StatusCode code) { return absl::StatusCodeToString(code); }

}  // namespace maxsim::service
