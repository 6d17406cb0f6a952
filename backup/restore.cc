#include "backup/restore.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "backup/fetch_parts.h"
#include "base/file.h"
#include "base/text.h"
#include "collection/partition/assemble.h"
#include "collection/partition/new_folder.h"
#include "collection/partition/repartition.h"

namespace maxsim::backup {
namespace {

using collection::NewFolder;
using collection::SlotRange;

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
  absl::Status status = CheckDiskFor(collection::ParentOf(options.output), backup->num_bytes());
  if (!status.ok()) return status;

  // The destructors of `fetched` and `made` remove their folders, unless Publish has succeeded.
  const absl::StatusOr<std::unique_ptr<NewFolder>> fetched = NewFolder::Begin(options.output);
  if (!fetched.ok()) return fetched.status();
  const absl::StatusOr<std::unique_ptr<NewFolder>> made = NewFolder::Begin(options.output);
  if (!made.ok()) return made.status();
  const absl::StatusOr<std::vector<std::string>> parts =
      FetchParts(store, *backup, *slots, (*fetched)->path(), options.fetch_observer, options.stop);
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
