// A call on its way through a service, whatever the transport.
#pragma once

#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/guard.h"
#include "server/observability/metrics.h"
#include "server/service/call/call_context.h"
#include "server/service/call/call_record.h"

namespace maxsim::service {

// The callback that gets a call's answer or error. It is called exactly once: on the caller's thread before the
// function that takes it returns, or later on another thread, which it must not block.
template <typename Response>
using Done = absl::AnyInvocable<void(absl::StatusOr<Response>)>;

// A call that has not been answered yet. If it is destroyed because memory ran out, its destructor answers with an
// error.
template <typename Response>
struct Call {
  Call(Metrics* of_service, CallContext&& of_call, Done<Response>&& when_done)
      : metrics(of_service), context(std::move(of_call)), done(std::move(when_done)) {}
  ~Call() { Finish(NoMemory()); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Records the call and answers it. Does nothing if it has been answered.
  void Finish(absl::StatusOr<Response> response) {
    if (done == nullptr) return;
    Record(context, metrics, response.status());
    std::exchange(done, nullptr)(std::move(response));
  }

  Metrics* const metrics;
  CallContext context;
  Done<Response> done;  // null once the call has been answered
};

}  // namespace maxsim::service
