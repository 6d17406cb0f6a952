// Writes a backup of a collection: first the files of its parts (each part is the snapshot of one server), then the
// manifest. A backup without a manifest is incomplete and cannot be restored.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backup/backup_manifest.h"
#include "backup/store/object_store.h"
#include "backup/store/sha256.h"
#include "server/service/bootstrap/snapshot_messages.h"

namespace maxsim::backup {

// Returns OK if there is no object under the store's URL. Returns ALREADY_EXISTS if there is a backup, or the remains
// of an interrupted one.
absl::Status CheckStoreIsEmpty(ObjectStore& store);

// Returns a random id for BackupManifest::id.
std::string NewBackupId();

// Writes the files of one part, as the messages of Admin.ReadSnapshot describe them. Keeps in memory only what an
// ObjectUpload keeps. Not thread-safe, but several threads may each write a part at the same time.
class PartWriter {
 public:
  // `store` must outlive this object. `part` is the index of the part in the manifest. `total_bytes` is the size of all
  // files together that the server announced.
  PartWriter(ObjectStore& store, std::string id, size_t part, uint64_t total_bytes)
      : store_(store), id_(std::move(id)), part_(part), total_bytes_(total_bytes) {}

  // Begins the next file. Returns INTERNAL for a file that a correct server never sends: its path is not relative,
  // leads out of the folder or was sent before; there are too many files, or more bytes than announced; or the previous
  // file is incomplete. Also returns the errors of the store and, for an empty file, of TakeData.
  absl::Status BeginFile(const std::string& path, uint64_t num_bytes, uint64_t xxh3);
  // Takes the next bytes of the file. Returns INTERNAL if no file is open, or if `bytes` is empty or longer than the
  // rest of the file. Returns DATA_LOSS if the file is complete and its checksum is wrong. Other errors are those of
  // the store.
  absl::Status TakeData(std::string_view bytes);
  // Returns the files. Call it once, when the server has sent all messages. Returns DATA_LOSS if the last file is
  // incomplete, if the files together have fewer bytes than announced, or if there is no collection.json.
  absl::StatusOr<std::vector<BackupFile>> End();

 private:
  absl::Status EndFile();

  ObjectStore& store_;
  const std::string id_;
  const size_t part_;
  const uint64_t total_bytes_;
  uint64_t num_bytes_ = 0;  // received
  std::vector<BackupFile> files_;
  std::set<std::string> paths_;

  // The file whose bytes come next:
  std::unique_ptr<ObjectUpload> upload_;  // null if there is none
  uint64_t bytes_left_ = 0;
  uint64_t wanted_xxh3_ = 0;
  service::SnapshotHash xxh3_;
  Sha256 sha256_;
};

// Checks that the store has every file of the manifest, in the right size, and writes the manifest. Returns DATA_LOSS
// if a file is missing or has another size; ALREADY_EXISTS if the URL has another backup's manifest by now;
// RESOURCE_EXHAUSTED if the manifest is larger than kMaxManifestBytes; INTERNAL if ParseManifest refuses it.
absl::Status PublishBackup(ObjectStore& store, const BackupManifest& manifest);

}  // namespace maxsim::backup
