// Removes files of old and unpublished generations. The caller must hold the folder's lock.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// Removes temporary files, and the shard, field and code files of generations newer than `published`. Ignores errors,
// because the next build tries again.
void RemoveLeftovers(const std::string& folder, const Manifest& published);

// Removes the shards of old generations, except those that `published` or `before` names, or the manifest of the
// generation that a server was told to serve (collection/generations/), unless the collection is live. (After a
// compaction, these may name old shards.) `before` is the previous generation, which a reader may be about to open.
void RemoveOldGenerations(const std::string& folder, const Manifest& published, const Manifest& before);

// Returns RESOURCE_EXHAUSTED if the folder's file system has less than `needed` bytes free.
absl::Status CheckSpace(const std::string& folder, int64_t needed);

// Lists the files of a generation that is not published yet. The destructor deletes them, unless Keep was called.
class UnpublishedFiles {
 public:
  explicit UnpublishedFiles(std::string folder) : folder_(std::move(folder)) {}
  ~UnpublishedFiles();
  UnpublishedFiles(const UnpublishedFiles&) = delete;
  UnpublishedFiles& operator=(const UnpublishedFiles&) = delete;
  void Add(std::string file) { files_.push_back(std::move(file)); }
  void Keep() { files_.clear(); }

 private:
  const std::string folder_;
  std::vector<std::string> files_;
};

// Publishes a generation whose files are complete, and calls files.Keep(). For `synchronised` see PublishManifest.
absl::Status PublishGeneration(const Manifest& manifest, const std::string& folder, UnpublishedFiles& files,
                               absl::Status* synchronised);

// Returns the time as manifests have it: RFC 3339, UTC.
std::string CreationTime();

}  // namespace maxsim::collection
