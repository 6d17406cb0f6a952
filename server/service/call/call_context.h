// A call, without its request and answer, for gRPC and HTTP alike.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "server/service/tenants/caller.h"
#include "server/tracing/span.h"

namespace maxsim::service {

class CallRecord;

// Where a call came from, and its times, all of MonotonicNow().
struct CallContext {
  std::string_view method;  // as the metrics name it; static
  absl::Time arrival = MonotonicNow();
  absl::Time deadline = absl::InfiniteFuture();
  uint64_t client = 0;                                // the caller (ClientOf), for fairness
  std::shared_ptr<std::atomic<bool>> cancelled = {};  // may be null
  bool may_be_held_up = false;                        // a short request may be scored on the calling thread
  tracing::Span span = {};                            // of the call; the service ends it
  // If null, the service counts the call and ends its span before it answers. Otherwise the service fills the record,
  // and the port writes the record when it knows which status the client gets (call_record.h). Valid until the answer
  // is given.
  CallRecord* record = nullptr;
  // The caller, as Authenticator::Identify returned it. If a port has not set it, the tenant gate refuses the call.
  Caller caller = {};
};

// How a server treats new calls. Its first state is kLoading. In kLoading and kDraining, new calls get UNAVAILABLE.
// Calls that were accepted before go on.
enum class ServingState { kLoading, kServing, kDraining };

}  // namespace maxsim::service
