// Waits until the collection that a bootstrap has made may be served.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/stop.h"
#include "server/store/live_documents.h"

namespace maxsim::service {

// Waits until a collection has applied all messages that its stream had when this function first found the collection
// connected, and at least those up to sequence `least`: after a failover, a stream may report fewer messages than it
// has. Blocks; returns soon after `stop` is stopped, with its status.
//
// Returns FAILED_PRECONDITION or DATA_LOSS, with the reason, if the collection can never follow the stream. If an
// error, such as a full disk, keeps the collection from applying messages for `max_stall`, returns that error. A
// compaction may make room. So the time while one runs does not count, unless the last one failed. Returns UNAVAILABLE
// if the stream has fewer than `least` messages for `max_stall`.
absl::Status WaitUntilCaughtUp(const store::LiveDocuments& live, uint64_t least, absl::Duration max_stall,
                               const StopSignal& stop);

}  // namespace maxsim::service
