// Waits until the collection that a bootstrap has made may be served.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/stop.h"
#include "server/store/live_documents.h"

namespace maxsim::service {

// Waits until a collection has applied the messages that its stream had when this function first found it connected,
// and those up to `least`: after a failover, a stream may report fewer messages than it has. Blocks; returns soon after
// `stop` is stopped, with its status.
//
// Returns the reason if the collection can never follow the stream: FAILED_PRECONDITION or DATA_LOSS. If an error, such
// as a full disk, keeps the collection from applying messages for `max_stall`, returns that error. A compaction may
// make room, so as long as one runs, and none has failed, that time does not count.
absl::Status WaitUntilCaughtUp(const store::LiveDocuments& live, uint64_t least, absl::Duration max_stall,
                               const StopSignal& stop);

}  // namespace maxsim::service
