// Copies a live collection to a folder.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"

namespace maxsim::live {

// Makes the folder `to`, with the shards of the generation (hard links, or copies where the file system has none), its
// manifest and a copy of the log, all of which are on the disk then. Returns the last sequence that it holds. The
// generation's files in `from`, and the log's records behind its log_sequence, must stay until this returns.
// ALREADY_EXISTS; FAILED_PRECONDITION where a shard's file is gone; on any error there is no such folder.
absl::StatusOr<uint64_t> MakeSnapshotFolder(const std::string& from, const collection::Manifest& manifest,
                                            const collection::CollectionLog& log, const std::string& to,
                                            const StopSignal* stop);

}  // namespace maxsim::live
