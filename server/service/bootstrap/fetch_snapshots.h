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

// Number of copies of the fetched bytes for which the disk must have room before anything is fetched: the snapshots,
// and the collection that is made of them. A copy with the same slots takes less, because its files become hard links.
// If the snapshots must be compacted first, the disk may need room for a third copy, and the bootstrap then ends with
// RESOURCE_EXHAUSTED if it has none.
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

// Fetches snapshots that together have all wanted slots. Asks all sources at the same time which slots they have. Then
// fetches from as few of them as are needed, also at the same time. Blocks; returns soon after `stop` (may be null) is
// stopped, with its status. `span` is the parent of the calls.
//
// Errors about one source name it in the message. INVALID_ARGUMENT about the field "sources" if they lack a slot;
// FAILED_PRECONDITION if a source's collection follows no stream, or the source accepts no such call from this server;
// RESOURCE_EXHAUSTED if the disk has no room, or from a busy source, then with RetryInfo; UNAVAILABLE if a source does
// not answer or is lost; DATA_LOSS and INTERNAL for wrong data (SnapshotReceiver). After an error, files may remain in
// the folder.
absl::StatusOr<FetchedSnapshots> FetchSnapshots(const FetchRequest& request, const OpenSnapshot& open,
                                                const tracing::SpanParent& span, const StopSignal* stop);

}  // namespace maxsim::service
