// What every gRPC handler does first and last: who calls, until when, and how an error leaves.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpc/support/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/service/call/auth.h"
#include "server/service/call/call_tracker.h"
#include "server/tracing/tracer.h"

namespace maxsim::rpc {

// This is the reactor of a unary call, which is in progress for `tracker` until gRPC has let go of it, which is when
// it deletes itself. It is made with new; after Finish it may be gone.
class UnaryCall : public grpc::ServerUnaryReactor {
 public:
  explicit UnaryCall(service::CallTracker* tracker) : call_(tracker) {}
  void OnDone() override { delete this; }

 protected:
  ~UnaryCall() override = default;

 private:
  service::CallTracker::Call call_;
};

// UNAUTHENTICATED unless the call's metadata carries a known token, PERMISSION_DENIED where it is not one for `scope`.
absl::Status Authenticate(const service::Authenticator& authenticator, const grpc::CallbackServerContext& context,
                          service::Scope scope);

// When the call must have been answered, as a time of MonotonicNow(). InfiniteFuture for a call without a deadline, and
// for one whose deadline is more than a year away.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context);

// Returns the time of MonotonicNow() that is as far from `monotonic_now` as `deadline` is from `grpc_now`, which is one
// of the same clock; InfiniteFuture for one that is more than a year away, gRPC's infinite future included.
absl::Time ToMonotonic(gpr_timespec deadline, gpr_timespec grpc_now, absl::Time monotonic_now);

// Returns the deadline for gRPC that is `time` away from now, on a clock that nobody sets.
gpr_timespec FromNow(absl::Duration time);

// Returns service::ClientOf of the metadata `key` ("" for none) and of the caller's address.
uint64_t ClientOf(const grpc::CallbackServerContext& context, const std::string& key);

// Returns the parent that the call's metadata name for its trace: none without one, with two, and where `tracer` is
// null or off.
tracing::RemoteParent ParentOf(const tracing::Tracer* tracer, const grpc::CallbackServerContext& context);

// Begins the span of a request of a stream, whose parent is that of the stream. There is none where `tracer` is null or
// off. `name` is static.
inline tracing::Span StartSpan(const tracing::Tracer* tracer, std::string_view name,
                               const tracing::RemoteParent& parent, absl::Time arrival) {
  if (tracer == nullptr) return {};
  return tracer->StartSpan(name, tracing::SpanKind::kServer, parent, arrival);
}

// Begins the span of a call that is no stream. There is none where `tracer` is null or off. `name` is static.
inline tracing::Span StartSpan(const tracing::Tracer* tracer, std::string_view name,
                               const grpc::CallbackServerContext& context, absl::Time arrival) {
  if (tracer == nullptr || !tracer->is_on()) return {};
  return tracer->StartSpan(name, tracing::SpanKind::kServer, ParentOf(tracer, context), arrival);
}

// Adds the trailing metadata that goes with the status (a retry hint).
void AddTrailers(const absl::Status& status, grpc::CallbackServerContext& context);

}  // namespace maxsim::rpc
