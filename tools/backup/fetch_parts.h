// Fetches the files of a backup's parts into folders.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/backup/restore.h"

namespace maxsim::backup {

// Fetches each part into a new folder in `folder`, several files at a time, and returns the folders in the order of the
// parts. Checks that the folders are the collections that the manifest describes: their name, slots, sequence and
// stream. Returns the errors of Restore. After an error, the caller must remove what was fetched.
absl::StatusOr<std::vector<std::string>> FetchParts(ObjectStore& store, const BackupManifest& manifest,
                                                    const std::string& folder, const FetchObserver& observer,
                                                    const StopSignal* stop);

}  // namespace maxsim::backup
