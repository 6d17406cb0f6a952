#include "server/rpc/grpc_call.h"

#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/rpc/status.h"

namespace maxsim::rpc {

absl::Status Authenticate(const Authenticator& authenticator, const grpc::CallbackServerContext& context) {
  if (!authenticator.enabled()) return absl::OkStatus();
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find("authorization");
  return authenticator.Check(it == metadata.end() ? std::string_view()
                                                  : std::string_view(it->second.data(), it->second.size()));
}

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const std::chrono::system_clock::time_point deadline = context.deadline();
  // gRPC's "never" is the clock's largest value; anything years away means the same.
  if (deadline - std::chrono::system_clock::now() > std::chrono::hours(24 * 365)) return absl::InfiniteFuture();
  return absl::FromChrono(deadline);
}

void AddTrailers(const absl::Status& status, grpc::CallbackServerContext& context) {
  if (const uint32_t ms = RetryDelayMs(status); ms > 0) context.AddTrailingMetadata(kPushbackKey, absl::StrCat(ms));
}

}  // namespace maxsim::rpc
