// Fetches snapshots of a collection from other servers, for a bootstrap.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/slots.h"
#include "server/service/bootstrap/snapshot_source.h"
#include "server/tracing/span.h"

namespace maxsim::service {

// The disk must have room for this many copies of the snapshots before anything is fetched: the snapshots, and the
// collection that is made of them. If the collection has the same slots as a snapshot, it takes less, because its files
// are hard links. If the snapshots must be compacted first, a third copy may be needed. If the disk has no room for
// that, the bootstrap ends with RESOURCE_EXHAUSTED.
inline constexpr uint64_t kFetchDiskCopies = 2;

struct FetchRequest {
  std::string collection;
  std::vector<std::string> sources;  // addresses, host:port
  collection::SlotRange slots;       // that the snapshots must have together
  std::string folder;                // exists; the snapshots get new folders in it
};

struct FetchedSnapshots {
  std::vector<std::string> folders;  // each a live collection
  uint64_t num_bytes = 0;
  uint64_t last_sequence = 0;  // the highest one of the snapshots
};

// Fetches snapshots that together have all wanted slots. First asks all sources, in parallel, which slots they have.
// Then fetches, also in parallel, from as few of them as are needed. Blocks. Returns soon after `stop` (may be null) is
// stopped, with the status of `stop`. `span` is the parent of the calls' spans.
//
// Errors about one source name it in the message. Returns INVALID_ARGUMENT about the field "sources" if together they
// lack a slot; FAILED_PRECONDITION if a source's collection follows no stream, or if the source refuses this server;
// RESOURCE_EXHAUSTED if the disk has no room or, with RetryInfo, if a source is busy; UNAVAILABLE if a source does not
// answer or is lost; DATA_LOSS and INTERNAL for wrong data (SnapshotReceiver). After an error, files may remain in the
// folder.
absl::StatusOr<FetchedSnapshots> FetchSnapshots(const FetchRequest& request, const OpenSnapshot& open,
                                                const tracing::SpanParent& span, const StopSignal* stop);

}  // namespace maxsim::service
