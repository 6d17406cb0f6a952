// The folder into which a build writes a generation: its existing contents, and the new generation.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/output_file.h"
#include "collection/build/builder.h"
#include "collection/build/generation_files.h"
#include "collection/build/shard_encoder.h"
#include "collection/catalog.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// Creates a folder and those above it that are missing. The destructor removes the created folders that are empty.
class OutputFolder {
 public:
  OutputFolder() = default;
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  absl::Status Create(const std::string& folder);

 private:
  std::vector<std::filesystem::path> created_;  // innermost first
};

// Holds the folder's lock while it lives, and removes the shards of a generation that was not published. Call the
// functions in the order in which they are declared.
class TargetFolder {
 public:
  // If `target` does not have all slots, the collection is a partition.
  explicit TargetFolder(const PartitionFolder& target);

  const std::string& folder() const { return folder_; }
  // Returns the slots of a partition; nullopt for a whole collection.
  const std::optional<SlotRange>& partition() const { return partition_; }

  // Creates the folder, takes its lock and reads what is published. FAILED_PRECONDITION for a manifest that cannot be
  // read.
  absl::Status Open();
  // Returns the manifest that is published, or an empty one of generation 0.
  const Manifest& published() const { return published_; }

  // Checks that the documents may become the folder's next generation: FAILED_PRECONDITION for another shape or
  // partition, or for a generation that is too new. Chooses the manifest's log_sequence.
  absl::Status Check(const BuildOptions& options, const Catalog& catalog, int64_t dim, int64_t generation);
  const std::optional<uint64_t>& log_sequence() const { return log_sequence_; }

  void RemoveLeftovers() const { collection::RemoveLeftovers(folder_, published_); }

  // Adds a complete shard to the manifest.
  void Add(ShardEntry entry);

  // Sets the manifest of the new generation, and adds the shards and their counts to it. Call it when all shards are
  // complete.
  void Complete(Manifest manifest);
  const Manifest& manifest() const { return manifest_; }

  // Writes the fields of all shards that the manifest declares. `on_shard` is called after each; an error that it
  // returns ends the writing. Other errors are those of WriteFieldFile.
  absl::Status WriteFields(const std::function<absl::Status()>& on_shard);

  // Writes the codes of all shards. The errors are those of ShardEncoder.
  absl::Status Encode(const CodesFormat& format, ShardEncoder& encoder);

  // Publishes the manifest. `synchronised` is that of PublishManifest.
  absl::Status Publish(absl::Status* synchronised);

  // Removes generations older than the previous one.
  void RemoveOld() const { RemoveOldGenerations(folder_, manifest_, published_); }

 private:
  absl::Status CheckShape(const BuildOptions& options, const Catalog& catalog, int64_t dim) const;

  const std::string folder_;
  const std::optional<SlotRange> partition_;
  OutputFolder created_;            // declared before the lock, whose file is in the folder
  std::optional<FolderLock> lock_;  // declared before the files, which are removed while the lock is held
  UnpublishedFiles files_;
  Manifest published_;
  std::optional<uint64_t> log_sequence_;
  std::vector<ShardEntry> shards_;
  Manifest manifest_;
};

// Returns the name for a build's collection: from the options, or else the published one, or else that of
// options.folder. FAILED_PRECONDITION if a folder holds a collection of another name.
absl::StatusOr<std::string> ChooseName(const BuildOptions& options, const std::vector<const TargetFolder*>& targets);

}  // namespace maxsim::collection
