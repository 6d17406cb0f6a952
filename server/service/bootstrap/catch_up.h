// Waits until the collection that a bootstrap has made may be served.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/stop.h"
#include "server/store/live_documents.h"

namespace maxsim::service {

// Waits until a collection has applied all messages that its stream had when the collection was first seen connected,
// and at least those up to sequence `least`: after a failover, a stream may report fewer messages than it has. Blocks.
// Returns soon after `stop` is stopped, with the status of `stop`.
//
// Returns FAILED_PRECONDITION or DATA_LOSS, with the reason, if the collection can never follow the stream. If an
// error, such as a full disk, keeps the collection from applying messages for `max_stall`, returns that error. The time
// while a compaction runs does not count, because it may make room, unless the last compaction failed. Returns
// UNAVAILABLE if for `max_stall` the stream has fewer messages than `least`.
absl::Status WaitUntilCaughtUp(const store::LiveDocuments& live, uint64_t least, absl::Duration max_stall,
                               const StopSignal& stop);

}  // namespace maxsim::service
