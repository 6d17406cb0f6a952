#include "backup/newest_backup.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "backup/backup_manifest.h"
#include "backup/fetch_parts.h"
#include "backup/restore.h"
#include "base/text.h"

namespace maxsim::backup {

absl::StatusOr<std::string> FindNewestBackup(ObjectStore& store) {
  const absl::StatusOr<std::vector<StoredObject>> objects = store.List("", kMaxListedObjects + 1);
  if (!objects.ok()) return objects.status();
  if (objects->size() > kMaxListedObjects) {
    return absl::ResourceExhaustedError(
        Cat(store.url(), ": has more than ", kMaxListedObjects, " objects; remove old backups"));
  }
  std::string newest;
  for (const StoredObject& object : *objects) {
    const size_t slash = object.key.find('/');
    if (slash == object.key.npos || std::string_view(object.key).substr(slash + 1) != kManifestKey) continue;
    newest = std::max(newest, object.key.substr(0, slash));
  }
  if (newest.empty()) return absl::NotFoundError(Cat(store.url(), ": has no backup"));
  return newest;
}

absl::StatusOr<FetchedBackup> FetchBackup(ObjectStore& store, const std::string& collection,
                                          const collection::SlotRange& slots, const std::string& folder,
                                          const StopSignal* stop) {
  absl::StatusOr<BackupManifest> manifest = ReadBackup(store);
  if (!manifest.ok()) return manifest.status();
  if (manifest->collection != collection) {
    return absl::FailedPreconditionError(
        Cat(store.url(), ": is a backup of collection ", manifest->collection, ", not of ", collection));
  }
  const absl::StatusOr<collection::SlotRange> covered = CoveredSlots(manifest->parts);
  if (!covered.ok()) return covered.status();
  if (covered->first > slots.first || covered->end < slots.end) {
    return absl::FailedPreconditionError(
        Cat(store.url(), ": has only ", collection::DescribeSlots(*covered), " of ", collection::DescribeSlots(slots)));
  }
  FetchedBackup fetched;
  for (const BackupPart& part : manifest->parts) {
    if (!SharesSlots(part, slots)) continue;
    for (const BackupFile& file : part.files) fetched.num_bytes += file.num_bytes;
    fetched.complete_at = std::max(fetched.complete_at, part.sequence);
  }
  if (absl::Status status = CheckDiskFor(folder, fetched.num_bytes); !status.ok()) return status;
  absl::StatusOr<std::vector<std::string>> folders = FetchParts(store, *manifest, slots, folder, nullptr, stop);
  if (!folders.ok()) return folders.status();
  fetched.folders = *std::move(folders);
  return fetched;
}

}  // namespace maxsim::backup
