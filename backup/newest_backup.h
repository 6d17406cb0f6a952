// Finds and fetches the newest backup of a collection. A server that starts without the collection uses this.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backup/store/object_store.h"
#include "base/stop.h"
#include "collection/slots.h"

namespace maxsim::backup {

// FindNewestBackup fails if all backups of a collection together have more objects than this. The keys of
// 200,000 objects take about 20 MB of memory.
inline constexpr size_t kMaxListedObjects = 200'000;

// Returns the name of the newest complete backup in a store that holds several. The objects of the backup NAME begin
// with NAME/, and it is complete if NAME/manifest.json exists. The newest is the one whose name comes last in byte
// order, so names should begin with the time. Returns NOT_FOUND if no backup is complete, RESOURCE_EXHAUSTED if the
// store has more than kMaxListedObjects, and the errors of the store.
absl::StatusOr<std::string> FindNewestBackup(ObjectStore& store);

struct FetchedBackup {
  std::vector<std::string> folders;  // each a live collection
  uint64_t num_bytes = 0;            // of these folders
  uint64_t complete_at = 0;          // as BackupManifest::complete_at, of the fetched parts
};

// Fetches the parts of the backup in `store` that have some of `slots` into new folders in `folder`, which must exist,
// and checks them as Restore does. Returns NOT_FOUND if there is no backup; FAILED_PRECONDITION if it is of another
// collection, or does not have all of the slots; RESOURCE_EXHAUSTED if the disk has less than twice the parts' bytes
// free; otherwise the errors of Restore. After an error, files may remain in `folder`.
absl::StatusOr<FetchedBackup> FetchBackup(ObjectStore& store, const std::string& collection,
                                          const collection::SlotRange& slots, const std::string& folder,
                                          const StopSignal* stop);

}  // namespace maxsim::backup
