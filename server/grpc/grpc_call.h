// Shared by all gRPC handlers: tokens, deadlines, spans, trailing metadata.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpc/support/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/service/call/auth.h"
#include "server/service/call/call_tracker.h"
#include "server/tracing/tracer.h"

namespace maxsim::rpc {

// The reactor of a unary call. `tracker` counts the call as in progress until gRPC has released it. The reactor then
// deletes itself, so create it with new, and do not use it after Finish.
class UnaryCall : public grpc::ServerUnaryReactor {
 public:
  explicit UnaryCall(service::CallTracker* tracker) : call_(tracker) {}
  void OnDone() override { delete this; }

 protected:
  ~UnaryCall() override = default;

 private:
  service::CallTracker::Call call_;
};

// Returns OK if the call's metadata has a token that is valid for `scope`. Returns UNAUTHENTICATED if it has no known
// token, PERMISSION_DENIED if its token is not valid for `scope` or belongs to a tenant.
absl::Status Authenticate(const service::Authenticator& authenticator, const grpc::CallbackServerContext& context,
                          service::Scope scope);

// Returns the caller of a call that tenants may make, too (Authenticator::Identify). Has the errors of Authenticate.
absl::StatusOr<service::Caller> Identify(const service::Authenticator& authenticator,
                                         const grpc::CallbackServerContext& context, service::Scope scope);

// Returns the caller of the next request of a stream, or the error with which to refuse the request. Called for each
// request, because a token may become invalid while the stream is open.
using AdmitRequest = std::function<absl::StatusOr<service::Caller>()>;

// Returns the call's deadline as a time of MonotonicNow(). Returns InfiniteFuture if there is none, or if it is more
// than a year away.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context);

// Returns the time after which a write must not begin: the call's deadline or, if earlier, the write's expiry
// (write_expiry.h).
absl::Time WriteDeadlineOf(const grpc::CallbackServerContext& context);

// Converts a deadline to the clock of MonotonicNow(). `grpc_now` and `monotonic_now` are the same moment, on the
// deadline's clock and on that of MonotonicNow(). Returns InfiniteFuture if the deadline is more than a year away, as
// gRPC's infinite future is.
absl::Time ToMonotonic(gpr_timespec deadline, gpr_timespec grpc_now, absl::Time monotonic_now);

// Returns the gRPC deadline `time` from now, on the monotonic clock.
gpr_timespec FromNow(absl::Duration time);

// Returns service::ClientOf for the client's address and, unless `key` is "", the value of the metadata key `key`.
uint64_t ClientOf(const grpc::CallbackServerContext& context, const std::string& key);

// Returns the trace parent from the call's metadata. If there is none or more than one, or if `tracer` is null or off,
// returns a parent that is not valid.
tracing::RemoteParent ParentOf(const tracing::Tracer* tracer, const grpc::CallbackServerContext& context);

// Begins the span of a request in a stream, as a child of `parent`. If `tracer` is null or off, returns an empty span.
// `name` must be a literal.
inline tracing::Span StartSpan(const tracing::Tracer* tracer, std::string_view name,
                               const tracing::RemoteParent& parent, absl::Time arrival) {
  if (tracer == nullptr) return {};
  return tracer->StartSpan(name, tracing::SpanKind::kServer, parent, arrival);
}

// Does the same for a unary call, with the parent from its metadata.
inline tracing::Span StartSpan(const tracing::Tracer* tracer, std::string_view name,
                               const grpc::CallbackServerContext& context, absl::Time arrival) {
  if (tracer == nullptr || !tracer->is_on()) return {};
  return tracer->StartSpan(name, tracing::SpanKind::kServer, ParentOf(tracer, context), arrival);
}

// Adds the metadata that tells gRPC's own retries how long to wait.
void AddTrailers(const absl::Status& status, grpc::CallbackServerContext& context);

}  // namespace maxsim::rpc
