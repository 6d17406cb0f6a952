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

// Returns the files in a folder and in its subfolders, in the order in which they are sent. The manifest comes last,
// because the other files are a collection only with it. Returns INTERNAL if the folder has anything but plain files
// and folders, such as a symbolic link.
absl::StatusOr<std::vector<SnapshotFile>> ListSnapshotFiles(const std::string& folder);

// Passes to `sink`, for each file, a message with its description and then messages with its bytes. Reads each file
// twice, because the description has the file's checksum. Returns the first error of `sink`, the status of `stop` (may
// be null) soon after it is stopped, or DATA_LOSS if a file has become shorter than listed.
absl::Status SendSnapshotFiles(const std::string& folder, const std::vector<SnapshotFile>& files, SnapshotSink sink,
                               const StopSignal* stop);

}  // namespace maxsim::service
