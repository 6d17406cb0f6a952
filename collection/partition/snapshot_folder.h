// Copies a live collection to a folder.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// Makes the folder `to` with the generation's shards (hard links, or copies if links are not possible), its manifest
// and a copy of the log. When this function returns, everything is on disk. Returns the last sequence in the copy.
// Until it returns, the generation's files in `from` and the log's records after the generation's log_sequence must
// stay. Returns ALREADY_EXISTS if `to` exists, or FAILED_PRECONDITION if a shard's file is gone. After an error, `to`
// is not created.
absl::StatusOr<uint64_t> MakeSnapshotFolder(const std::string& from, const Manifest& manifest, const CollectionLog& log,
                                            const std::string& to, const StopSignal* stop);

}  // namespace maxsim::collection
