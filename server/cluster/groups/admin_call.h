// Calls a method of one server's Admin service. Such a call may take long, and can be stopped.
#pragma once

#include <chrono>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "base/stop.h"
#include "client/grpc_support.h"
#include "client/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "server/cluster/groups/answer_fault.h"
#include "server/cluster/groups/group.h"
#include "server/cluster/groups/replica.h"
#include "server/cluster/observed/attempt_spans.h"
#include "server/service/api.h"
#include "server/service/call/call_spans.h"
#include "server/tracing/span.h"

namespace maxsim::cluster {

// The deadline of a call. It is long because loading a large collection takes minutes.
inline constexpr absl::Duration kAdminTimeout = absl::Hours(2);

// A call ends with UNAVAILABLE once its server could not be reached for this long. Otherwise a server whose machine is
// gone would block the caller for kAdminTimeout.
inline constexpr absl::Duration kAdminPatience = absl::Seconds(30);

// Calls a method of a server and blocks until it answers. If the context's `stop` (must not be null) is stopped,
// cancels the call and returns soon, with the status of `stop`. The call has its own span, a child of the context's
// span. The span's ids go to the server.
template <typename Request, typename Response>
absl::StatusOr<Response> CallAdmin(const Group& group, const Replica& replica, Rpc<Request, Response> rpc,
                                   const Request& request, const service::ChangeContext& change) {
  const StopSignal& stop = *change.stop;
  tracing::Span span = service::StartGroupAttempt(change.span, group.name(), replica.target(), 0, /*is_hedge=*/false);
  struct {
    Mutex mutex;
    ConditionVariable changed;
    bool has_ended ABSL_GUARDED_BY(mutex) = false;
    grpc::Status status ABSL_GUARDED_BY(mutex);
  } call;
  grpc::ClientContext context;
  Response response;
  context.set_deadline(client::ToGrpcTime(MonotonicNow() + kAdminTimeout));
  client::CallMetadata(replica.options()).AddTo(context);
  AddTrace(span.AsParent(), context);
  rpc(replica.stubs(), &context, &request, &response, [&call](const grpc::Status& status) {
    const MutexLock lock(&call.mutex);
    call.status = status;
    call.has_ended = true;
    call.changed.NotifyAll();
  });
  absl::Time reached = MonotonicNow();
  bool is_given_up = false;
  MutexLock lock(&call.mutex);
  while (!call.has_ended) {
    const absl::Time now = MonotonicNow();
    if (!replica.is_lost()) reached = now;
    is_given_up = is_given_up || now - reached >= kAdminPatience;
    if (is_given_up || stop.stopped()) context.TryCancel();
    call.changed.WaitFor(lock, std::chrono::milliseconds(50));
  }
  absl::Status status = ErrorOfReplica(call.status);
  if (!status.ok() && is_given_up) status = absl::UnavailableError("it cannot be reached");
  if (!status.ok() && stop.stopped()) status = stop.status();
  service::EndCall(status, span);
  if (status.ok()) return response;
  return status;
}

}  // namespace maxsim::cluster
