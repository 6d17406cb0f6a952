// Makes the folders of a live collection from a backup.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backup/backup_manifest.h"
#include "backup/store/object_store.h"
#include "base/stop.h"
#include "collection/build/builder.h"
#include "collection/manifest.h"

namespace maxsim::backup {

// Called while files are fetched, by one thread at a time, with the number of bytes fetched so far and the number of
// bytes of all files. If it returns an error, the restore ends and returns this error.
using FetchObserver = std::function<absl::Status(uint64_t num_bytes, uint64_t total_bytes)>;

struct RestoreOptions {
  std::string output;  // must not exist; its parent must
  int32_t into = 1;    // number of partitions, 1 to the number of slots that the backup has
  int64_t max_shard_bytes = collection::kDefaultMaxShardBytes;
  std::string created_by = "maxsim-shard";
  const StopSignal* stop = nullptr;
  FetchObserver fetch_observer = nullptr;
  collection::BuildObserver build_observer = nullptr;
};

struct RestoredBackup {
  BackupManifest backup;
  std::vector<collection::PartitionFolder> folders;
  std::vector<collection::Manifest> manifests;  // [folders]
};

// Reads the manifest of the backup in the store. Returns NOT_FOUND if there is none, for example because the backup was
// interrupted, and the errors of ParseManifest and of the store.
absl::StatusOr<BackupManifest> ReadBackup(ObjectStore& store);

// Fetches all files of a backup, checks their sizes and SHA-256, and makes the collections from them (AssembleLive in
// collection/partition/assemble.h). With `into` 1, `output` is the collection; otherwise it is a folder with the
// partitions, which have the names that SplitCollection gives. Once a server loads it, each collection follows the
// stream of the backup, and continues after the lowest sequence of the parts from which it was made.
//
// Everything is made in hidden folders beside `output`, and renamed at the end: after an error there is no `output`.
// The disk must have room for the backup twice. Returns ALREADY_EXISTS if `output` exists; RESOURCE_EXHAUSTED if the
// disk has too little room; DATA_LOSS if an object, which it names, is missing, damaged, or not what the manifest says;
// INVALID_ARGUMENT if `into` is out of range; the status of `options.stop` once it is stopped, which is noticed
// when a request to the store ends or fails; and errors of ReadBackup, of the store, of AssembleLive and of the
// observers.
absl::StatusOr<RestoredBackup> Restore(ObjectStore& store, const RestoreOptions& options);

}  // namespace maxsim::backup
