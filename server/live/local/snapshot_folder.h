// Copies a live collection to a folder.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"

namespace maxsim::live {

// Makes the folder `to` with the shards of the generation (hard links, or copies where the file system has none), its
// manifest and a copy of the log. All of it is on disk when this returns the last sequence that it holds. The
// generation's files in `from`, and the log's records after its log_sequence, must stay until then. Returns
// ALREADY_EXISTS, or FAILED_PRECONDITION if a shard's file is gone. After any error there is no such folder.
absl::StatusOr<uint64_t> MakeSnapshotFolder(const std::string& from, const collection::Manifest& manifest,
                                            const collection::CollectionLog& log, const std::string& to,
                                            const StopSignal* stop);

}  // namespace maxsim::live
