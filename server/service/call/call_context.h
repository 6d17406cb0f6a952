// What a service knows of a call beside its request, whatever the transport.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "server/tracing/span.h"

namespace maxsim::service {

class CallRecord;

// Whence a call came and how long it may take. The times are those of MonotonicNow().
struct CallContext {
  std::string_view method;  // as the metrics name it; static
  absl::Time arrival = MonotonicNow();
  absl::Time deadline = absl::InfiniteFuture();
  uint64_t client = 0;                                // who asks (ClientOf), for fairness
  std::shared_ptr<std::atomic<bool>> cancelled = {};  // may be null
  bool may_be_held_up = false;                        // the calling thread: a short request may be scored on it
  tracing::Span span = {};                            // of the call; the service ends it
  // If null, the service counts the call and ends its span before it answers. Otherwise the port does both after the
  // answer (call_record.h). Valid until the answer is given.
  CallRecord* record = nullptr;
};

// What a server does with new calls. The first state is kLoading; calls that come while it loads or drains are
// UNAVAILABLE, and those that were accepted are not touched.
enum class ServingState { kLoading, kServing, kDraining };

}  // namespace maxsim::service
