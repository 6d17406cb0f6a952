// Writes a snapshot that another server sends into a folder. Checks each message, because the other server may have
// another version, may be broken, or may not be a maxsimd at all.
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

// Not thread-safe. Unusable after an error. Complete files stay in the folder.
class SnapshotReceiver {
 public:
  // `folder` must exist and be empty. `total_bytes` is the size that the first message of the snapshot announced.
  SnapshotReceiver(std::string folder, uint64_t total_bytes) : folder_(std::move(folder)), total_bytes_(total_bytes) {}

  // Takes each message after the first one. Returns INTERNAL if no correct server sends such a message: if a path is
  // not relative, leads out of the folder or was sent before, if there are more bytes than announced, or if the order
  // is wrong. Returns DATA_LOSS if a file does not have the announced checksum. Also returns errors of writing, such as
  // RESOURCE_EXHAUSTED for a full disk.
  absl::Status Take(const v1::ReadSnapshotResponse& message);

  // Call it after the last message. Returns DATA_LOSS if something is missing.
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
