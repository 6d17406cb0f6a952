// Fuzzes the manifest of a backup. An accepted manifest must name no file outside of its folders, and must not change
// when it is written and read again.
#include <string>

#include "backup/backup_manifest.h"
#include "collection/collection_name.h"
#include "collection/manifest.h"
#include "collection/partition/snapshot_path.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

void FuzzBackupManifest(std::string_view input) {
  const absl::StatusOr<backup::BackupManifest> manifest = backup::ParseManifest(input);
  if (absl::IsFailedPrecondition(manifest.status())) return;  // of a later version
  if (!manifest.ok()) return RequireRefusal(manifest.status());
  Require(collection::CheckCollectionName(manifest->collection).ok(), "the collection has a name");
  Require(backup::CoveredSlots(manifest->parts).ok(), "the parts leave no gap");
  for (const backup::BackupPart& part : manifest->parts) {
    Require(0 <= part.slots.first && part.slots.first < part.slots.end && part.slots.end <= collection::kNumSlots,
            "a part has slots");
    Require(part.sequence >= manifest->position() && part.sequence <= manifest->complete_at(),
            "the positions are those of parts");
    bool has_manifest = false;
    for (const backup::BackupFile& file : part.files) {
      Require(collection::SnapshotPathProblem(file.path).empty(), "a path lies in its folder");
      Require(file.sha256.size() == 64, "a hash has 64 digits");
      has_manifest |= file.path == collection::kManifestFileName;
    }
    Require(has_manifest, "a part is a collection");
  }
  const std::string written = backup::FormatManifest(*manifest);
  const absl::StatusOr<backup::BackupManifest> again = backup::ParseManifest(written);
  Require(again.ok() && again->parts == manifest->parts && again->stream == manifest->stream &&
              again->id == manifest->id && backup::FormatManifest(*again) == written,
          "what is written is read again");
}

const Registration kBackupManifestTarget("backup_manifest", &FuzzBackupManifest);

}  // namespace
}  // namespace maxsim::fuzz
