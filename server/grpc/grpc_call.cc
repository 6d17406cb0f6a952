#include "server/grpc/grpc_call.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "server/service/call/client_of.h"
#include "server/service/call/status.h"
#include "server/service/call/write_expiry.h"

namespace maxsim::rpc {

namespace {

// Returns the value of the metadata key "authorization", or "".
std::string_view AuthorizationOf(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find("authorization");
  return it == metadata.end() ? std::string_view() : std::string_view(it->second.data(), it->second.size());
}

}  // namespace

absl::Status Authenticate(const service::Authenticator& authenticator, const grpc::CallbackServerContext& context,
                          service::Scope scope) {
  return authenticator.Check(AuthorizationOf(context), scope);
}

absl::StatusOr<service::Caller> Identify(const service::Authenticator& authenticator,
                                         const grpc::CallbackServerContext& context, service::Scope scope) {
  return authenticator.Identify(AuthorizationOf(context), scope);
}

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  // Do not use context.deadline(): it overflows for a deadline 300 years from now.
  const gpr_timespec deadline = context.raw_deadline();
  return ToMonotonic(deadline, gpr_now(deadline.clock_type), MonotonicNow());
}

absl::Time WriteDeadlineOf(const grpc::CallbackServerContext& context) {
  absl::Time deadline = DeadlineOf(context);
  const auto expiries = context.client_metadata().equal_range(service::kWriteExpiryKey);
  for (auto one = expiries.first; one != expiries.second; ++one) {
    deadline = std::min(deadline, service::ParseWriteExpiry({one->second.data(), one->second.size()}));
  }
  return deadline;
}

absl::Time ToMonotonic(gpr_timespec deadline, gpr_timespec grpc_now, absl::Time monotonic_now) {
  constexpr absl::Duration kNever = absl::Hours(24 * 365);
  const gpr_timespec left = gpr_time_sub(deadline, grpc_now);
  const absl::Duration time_left = absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
  return time_left > kNever ? absl::InfiniteFuture() : monotonic_now + time_left;
}

gpr_timespec FromNow(absl::Duration time) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(absl::ToInt64Nanoseconds(time), GPR_TIMESPAN));
}

uint64_t ClientOf(const grpc::CallbackServerContext& context, const std::string& key) {
  if (!key.empty()) {
    const auto& metadata = context.client_metadata();
    const auto it = metadata.find(key);
    if (it != metadata.end() && !it->second.empty()) {
      return service::ClientOf(std::string_view(it->second.data(), it->second.size()), "");
    }
  }
  return service::ClientOf("", context.peer());
}

tracing::RemoteParent ParentOf(const tracing::Tracer* tracer, const grpc::CallbackServerContext& context) {
  if (tracer == nullptr || !tracer->is_on()) return {};
  const auto& metadata = context.client_metadata();
  if (metadata.count(tracing::kTraceparentKey) != 1) return {};
  const grpc::string_ref traceparent = metadata.find(tracing::kTraceparentKey)->second;
  tracing::RemoteParent parent;
  Guarded([&] {
    std::string state;
    const auto lines = metadata.equal_range(tracing::kTracestateKey);
    for (auto line = lines.first; line != lines.second; ++line) {
      if (!state.empty()) state += ',';
      state.append(line->second.data(), line->second.size());
    }
    parent = tracing::ReadParent({traceparent.data(), traceparent.size()}, state);
    return absl::OkStatus();
  }).IgnoreError();  // If memory for the parent runs out, the call goes on without a trace.
  return parent;
}

void AddTrailers(const absl::Status& status, grpc::CallbackServerContext& context) {
  if (const uint32_t ms = service::RetryDelayMs(status); ms > 0)
    context.AddTrailingMetadata(service::kPushbackKey, absl::StrCat(ms));
}

}  // namespace maxsim::rpc
