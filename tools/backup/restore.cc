#include "tools/backup/restore.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "collection/partition/assemble.h"
#include "collection/partition/new_folder.h"
#include "collection/partition/repartition.h"
#include "tools/backup/fetch_parts.h"

namespace maxsim::backup {
namespace {

using collection::NewFolder;
using collection::SlotRange;

// The disk holds the fetched files and, at the same time, the collections that are made from them.
constexpr uint64_t kDiskCopies = 2;

absl::Status CheckDisk(const std::string& folder, uint64_t num_bytes) {
  const absl::StatusOr<int64_t> free_bytes = FreeDiskBytes(folder);
  if (!free_bytes.ok()) return free_bytes.status();
  if (num_bytes <= static_cast<uint64_t>(std::max<int64_t>(*free_bytes, 0)) / kDiskCopies) return absl::OkStatus();
  return absl::ResourceExhaustedError(Cat(folder, ": ", *free_bytes, " bytes are free, which must be ", kDiskCopies,
                                          " times as many as the backup has, ", num_bytes));
}

// Returns where the collections are made: `whole` if there is only one, and otherwise folders in `partitions`.
std::vector<collection::PartitionFolder> FoldersIn(const std::string& whole, const std::string& partitions,
                                                   const SlotRange& slots, int32_t into) {
  if (into == 1) return {{whole, slots}};
  return collection::PartitionFolders(partitions, slots, into);
}

}  // namespace

absl::StatusOr<BackupManifest> ReadBackup(ObjectStore& store) {
  const absl::StatusOr<std::string> text = store.Read(kManifestKey, 0, kMaxManifestBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(Cat(store.url(), ": there is no ", kManifestKey,
                                   ", so this is no backup, or one that was not finished (",
                                   std::string(text.status().message()), ")"));
  }
  if (!text.ok()) return text.status();
  absl::StatusOr<BackupManifest> manifest = ParseManifest(*text);
  if (!manifest.ok()) return Prefix(Cat(store.url(), "/"), manifest.status());
  return manifest;
}

absl::StatusOr<RestoredBackup> Restore(ObjectStore& store, const RestoreOptions& options) {
  if (absl::Status status = collection::CheckIsNew(options.output); !status.ok()) return status;
  absl::StatusOr<BackupManifest> backup = ReadBackup(store);
  if (!backup.ok()) return backup.status();
  const absl::StatusOr<SlotRange> slots = CoveredSlots(backup->parts);
  if (!slots.ok()) return slots.status();
  if (options.into < 1 || options.into > slots->size()) {
    return Invalid("--into: ", options.into, " must be 1 to ", slots->size(), ", the slots that the backup has");
  }
  absl::Status status = CheckDisk(collection::ParentOf(options.output), backup->num_bytes());
  if (!status.ok()) return status;

  // The destructors of `fetched` and `made` remove their folders, unless Publish has succeeded.
  const absl::StatusOr<std::unique_ptr<NewFolder>> fetched = NewFolder::Begin(options.output);
  if (!fetched.ok()) return fetched.status();
  const absl::StatusOr<std::unique_ptr<NewFolder>> made = NewFolder::Begin(options.output);
  if (!made.ok()) return made.status();
  const absl::StatusOr<std::vector<std::string>> parts =
      FetchParts(store, *backup, (*fetched)->path(), options.fetch_observer, options.stop);
  if (!parts.ok()) return parts.status();

  RestoredBackup restored{.backup = *std::move(backup),
                          .folders = FoldersIn(options.output, options.output, *slots, options.into),
                          .manifests = {}};
  for (const collection::PartitionFolder& one : FoldersIn(options.output, (*made)->path(), *slots, options.into)) {
    const collection::AssembleOptions assemble{.output = one.folder,
                                               .slots = one.slots,
                                               .max_shard_bytes = options.max_shard_bytes,
                                               .created_by = options.created_by,
                                               .stop = options.stop};
    absl::StatusOr<collection::Manifest> manifest = collection::AssembleLive(*parts, assemble, options.build_observer);
    if (!manifest.ok()) return manifest.status();
    restored.manifests.push_back(*std::move(manifest));
  }
  if (options.into > 1) status = (*made)->Publish();
  if (!status.ok()) return status;
  return restored;
}

}  // namespace maxsim::backup
