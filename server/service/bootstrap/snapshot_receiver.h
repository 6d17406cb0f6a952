// Writes a snapshot that another server sends to a folder. Checks each message, since the server may be of another
// version, broken, or not a maxsimd at all.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "base/output_file.h"
#include "maxsim/v1/admin.pb.h"
#include "server/service/bootstrap/snapshot_messages.h"

namespace maxsim::service {

// Not thread-safe. After an error the object can only be destroyed; files that are complete stay in the folder.
class SnapshotReceiver {
 public:
  // `folder` must exist and be empty. `total_bytes` is what the first message announced.
  SnapshotReceiver(std::string folder, uint64_t total_bytes) : folder_(std::move(folder)), total_bytes_(total_bytes) {}

  // Takes a message after the first one. Returns INTERNAL if no correct server sends such a message: for a path that
  // is not relative, leads out of the folder or was sent before, for more bytes than were announced, and for a wrong
  // order. Returns DATA_LOSS if a file's bytes do not have its checksum, and the errors of writing, such as
  // RESOURCE_EXHAUSTED for a full disk.
  absl::Status Take(const v1::ReadSnapshotResponse& message);

  // Call this when the server has sent all messages. Returns DATA_LOSS if something is missing.
  absl::Status End() const;

  uint64_t num_bytes() const { return num_bytes_; }  // received

 private:
  absl::Status BeginFile(const v1::SnapshotFile& file);
  absl::Status TakeData(const std::string& data);
  absl::Status EndFile();

  const std::string folder_;
  const uint64_t total_bytes_;
  uint64_t num_bytes_ = 0;
  std::set<std::string> paths_;  // of the files so far

  // The file whose bytes come next:
  std::unique_ptr<OutputFile> file_;  // null if there is none
  std::string path_;
  uint64_t bytes_left_ = 0;
  uint64_t wanted_hash_ = 0;
  SnapshotHash hash_;
};

}  // namespace maxsim::service
