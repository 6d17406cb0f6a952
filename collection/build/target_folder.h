// The folder into which a build writes a new generation.
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

// Creates a folder and its missing parents. The destructor removes those of the created folders that are empty.
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

// Holds the folder's lock from Open on. The destructor removes the new files if Publish was not called or failed. Call
// the functions in the order in which they are declared.
class TargetFolder {
 public:
  // If `target` does not have all slots, the collection will be a partition.
  explicit TargetFolder(const PartitionFolder& target);

  const std::string& folder() const { return folder_; }
  // Returns the slots of a partition; nullopt for a whole collection.
  const std::optional<SlotRange>& partition() const { return partition_; }

  // Creates the folder, takes its lock and reads the published manifest, if any. Returns FAILED_PRECONDITION if the
  // manifest cannot be read.
  absl::Status Open();
  // Returns the published manifest, or an empty one of generation 0 if nothing is published.
  const Manifest& published() const { return published_; }

  // Checks that the documents may become the folder's next generation. Returns FAILED_PRECONDITION if they have another
  // shape or partition, or if the published generation is not older than `generation`. Sets log_sequence().
  absl::Status Check(const BuildOptions& options, const Catalog& catalog, int64_t dim, int64_t generation);
  const std::optional<uint64_t>& log_sequence() const { return log_sequence_; }

  void RemoveLeftovers() const { collection::RemoveLeftovers(folder_, published_); }

  // Adds a complete shard to the manifest.
  void Add(ShardEntry entry);

  // Sets the new generation's manifest, and adds the shards to it. Call it when all shards are complete.
  void Complete(Manifest manifest);
  const Manifest& manifest() const { return manifest_; }

  // Writes the field files of all shards. Calls `on_shard` after each; an error that it returns ends the writing. Other
  // errors are those of WriteFieldFile.
  absl::Status WriteFields(const std::function<absl::Status()>& on_shard);

  // Writes the code files of all shards. Errors are those of ShardEncoder.
  absl::Status Encode(const CodesFormat& format, ShardEncoder& encoder);

  // Publishes the manifest, and keeps the one before unless the collection is live. `synchronised` is that of
  // PublishManifest.
  absl::Status Publish(absl::Status* synchronised);

  // Removes generations older than the previous one, except the one that a server was told to serve.
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

// Returns the collection's name: options.name or, if that is "", the published name or, if nothing is published, the
// name of options.folder. Returns FAILED_PRECONDITION if a target holds a collection of another name.
absl::StatusOr<std::string> ChooseName(const BuildOptions& options, const std::vector<const TargetFolder*>& targets);

}  // namespace maxsim::collection
