// Sends the files of a snapshot as the messages of Admin.ReadSnapshot.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "server/service/bootstrap/snapshot_sink.h"

namespace maxsim::service {

struct SnapshotFile {
  std::string path;  // relative to the folder, with /
  uint64_t num_bytes = 0;
};

// Returns the plain files in a folder and in the folders in it, in the order in which they are sent. The manifest is
// the last one, because it makes the other files a collection. Returns INTERNAL if the folder has anything else, such
// as a symbolic link.
absl::StatusOr<std::vector<SnapshotFile>> ListSnapshotFiles(const std::string& folder);

// Passes a message with each file's description, and then messages with its bytes, to `sink`. Reads each file twice,
// because the description has its checksum; the second time it usually comes from the system's cache. Returns the
// first error of `sink`, the status of `stop` (may be null) soon after it is stopped, and DATA_LOSS if a file is
// shorter than it was.
absl::Status SendSnapshotFiles(const std::string& folder, const std::vector<SnapshotFile>& files, SnapshotSink sink,
                               const StopSignal* stop);

}  // namespace maxsim::service
