#include "collection/compact/create.h"

#include <unistd.h>

#include <memory>
#include <utility>

#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"
#include "collection/build/generation_files.h"
#include "collection/log/collection_log.h"
#include "collection/manifest_parser.h"

namespace maxsim::collection {

absl::StatusOr<Manifest> CreateLiveCollection(const std::string& folder, const CreateOptions& options) {
  Manifest manifest{.name = options.name,
                    .generation = 1,
                    .dim = options.dim,
                    .storage = options.storage,
                    .rotation_seed = options.storage == ScalarType::kI8 ? options.rotation_seed : 0,
                    .id_type = options.id_type,
                    .has_payloads = options.has_payloads,
                    .num_documents = 0,
                    .num_tokens = 0,
                    .created_by = options.created_by,
                    .created_at = CreationTime(),
                    .shards = {},
                    .encoder = options.encoder,
                    .log_sequence = 0,
                    .partition = options.partition,
                    .codes = options.codes,
                    .fields = options.fields};
  if (manifest.codes.has_value() && options.storage == ScalarType::kI8) {
    manifest.codes->rotation_seed = manifest.rotation_seed;
  }
  // Check the options before a folder is created.
  if (absl::StatusOr<Manifest> check = ParseManifest(FormatManifest(manifest), folder); !check.ok()) {
    return check.status();
  }
  if (absl::Status status = CreateFolders(folder); !status.ok()) return status;
  absl::StatusOr<FolderLock> lock = FolderLock::Acquire(folder);
  if (!lock.ok()) return lock.status();
  const absl::StatusOr<Manifest> there = ReadManifest(folder);
  if (there.ok())
    return absl::AlreadyExistsError(Cat(folder, ": holds the collection ", Quote(there->name), " already"));
  if (!absl::IsNotFound(there.status())) return absl::FailedPreconditionError(there.status().message());
  if (HasLog(folder)) {
    return absl::FailedPreconditionError(Cat(folder, ": has a log of writes and no collection; choose another folder"));
  }
  if (absl::Status status = PublishManifest(manifest, folder); !status.ok()) return status;
  const absl::StatusOr<std::unique_ptr<CollectionLog>> log =
      CollectionLog::Open(folder, LogFormat::Of(manifest), CollectionLog::Mode::kCreate);
  if (log.ok()) return manifest;
  ::unlink(JoinPath(folder, kManifestFileName).c_str());
  return log.status();
}

}  // namespace maxsim::collection
