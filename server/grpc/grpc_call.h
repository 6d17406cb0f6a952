// Steps that all gRPC handlers share: authentication, deadlines, spans, and the trailers of errors.
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

// The reactor of a unary call. `tracker` counts the call as in progress until gRPC has released it; then the reactor
// deletes itself. Create it with new. Do not use it after Finish, because it may have been deleted.
class UnaryCall : public grpc::ServerUnaryReactor {
 public:
  explicit UnaryCall(service::CallTracker* tracker) : call_(tracker) {}
  void OnDone() override { delete this; }

 protected:
  ~UnaryCall() override = default;

 private:
  service::CallTracker::Call call_;
};

// Returns UNAUTHENTICATED unless the call's metadata has a known token, PERMISSION_DENIED if the token is not valid for
// `scope` or is a tenant's.
absl::Status Authenticate(const service::Authenticator& authenticator, const grpc::CallbackServerContext& context,
                          service::Scope scope);

// Returns the caller of a call that tenants may make, too (Authenticator::Identify). Errors as Authenticate.
absl::StatusOr<service::Caller> Identify(const service::Authenticator& authenticator,
                                         const grpc::CallbackServerContext& context, service::Scope scope);

// Returns the caller of the next request of a stream, or the reason to refuse the request. It is asked for each
// request, because a stream may stay open after its token was withdrawn.
using AdmitRequest = std::function<absl::StatusOr<service::Caller>()>;

// Returns when the call must have been answered, as a time of MonotonicNow(). InfiniteFuture for a call without a
// deadline, and for one whose deadline is more than a year away.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context);

// Returns until when a write may begin: its deadline, or its expiry (service/call/write_expiry.h) if that is earlier.
absl::Time WriteDeadlineOf(const grpc::CallbackServerContext& context);

// Converts a deadline to MonotonicNow()'s clock. `grpc_now` and `monotonic_now` are the same moment on the deadline's
// clock and on MonotonicNow()'s. Returns InfiniteFuture if the deadline is more than a year away, as gRPC's infinite
// future is.
absl::Time ToMonotonic(gpr_timespec deadline, gpr_timespec grpc_now, absl::Time monotonic_now);

// Returns the gRPC deadline `time` from now, on the monotonic clock, which setting the system time does not move.
gpr_timespec FromNow(absl::Duration time);

// Returns service::ClientOf for the value of the metadata key `key` ("" for none) and the caller's address.
uint64_t ClientOf(const grpc::CallbackServerContext& context, const std::string& key);

// Returns the trace parent from the call's metadata. Returns an invalid one if the metadata has none or more than one,
// or if `tracer` is null or off.
tracing::RemoteParent ParentOf(const tracing::Tracer* tracer, const grpc::CallbackServerContext& context);

// Begins the span of a request in a stream, as a child of the stream's parent. Returns no span if `tracer` is null or
// off. `name` must be static.
inline tracing::Span StartSpan(const tracing::Tracer* tracer, std::string_view name,
                               const tracing::RemoteParent& parent, absl::Time arrival) {
  if (tracer == nullptr) return {};
  return tracer->StartSpan(name, tracing::SpanKind::kServer, parent, arrival);
}

// Begins the span of a unary call. Returns no span if `tracer` is null or off. `name` must be static.
inline tracing::Span StartSpan(const tracing::Tracer* tracer, std::string_view name,
                               const grpc::CallbackServerContext& context, absl::Time arrival) {
  if (tracer == nullptr || !tracer->is_on()) return {};
  return tracer->StartSpan(name, tracing::SpanKind::kServer, ParentOf(tracer, context), arrival);
}

// Adds the trailing metadata of a status: the delay after which gRPC's own retries may try again.
void AddTrailers(const absl::Status& status, grpc::CallbackServerContext& context);

}  // namespace maxsim::rpc
