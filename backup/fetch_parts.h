// Fetches the files of a backup's parts into folders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backup/restore.h"
#include "collection/slots.h"

namespace maxsim::backup {

// Returns whether a part has some of the slots.
bool SharesSlots(const BackupPart& part, const collection::SlotRange& slots);

// Returns RESOURCE_EXHAUSTED if the disk of `folder` has less than twice `num_bytes` free. It must have room for the
// fetched files and, at the same time, for the collections that are made from them.
absl::Status CheckDiskFor(const std::string& folder, uint64_t num_bytes);

// Fetches each part that has some of `slots` into a new folder in `folder`, several files at a time, and returns the
// new folders in the order of the parts. Checks that the name, slots, sequence and stream of each folder's collection
// are those in the manifest. Returns the errors of Restore (restore.h). After an error, the caller must remove what was
// fetched.
absl::StatusOr<std::vector<std::string>> FetchParts(ObjectStore& store, const BackupManifest& manifest,
                                                    const collection::SlotRange& slots, const std::string& folder,
                                                    const FetchObserver& observer, const StopSignal* stop);

}  // namespace maxsim::backup
