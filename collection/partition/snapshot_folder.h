// Copies a live collection to a folder.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// Creates the folder `to` with the files that `manifest` names (hard links if possible, otherwise copies), the manifest
// and a copy of the log. Returns the last sequence in the copy. Everything is then on disk. During the call, the files
// in `from`, and the log's records after the manifest's log_sequence, must not be removed. Returns ALREADY_EXISTS if
// `to` exists, or FAILED_PRECONDITION if a file is gone. After an error, `to` does not exist.
absl::StatusOr<uint64_t> MakeSnapshotFolder(const std::string& from, const Manifest& manifest, const CollectionLog& log,
                                            const std::string& to, const StopSignal* stop);

}  // namespace maxsim::collection
