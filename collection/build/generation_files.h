// Decides which files of old generations are removed, and when. The caller holds the folder's lock.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// Removes files that were never published: temporaries, and shards of generations newer than `published`. Ignores files
// that cannot be removed, because the next build tries again.
void RemoveLeftovers(const std::string& folder, const Manifest& published);

// Removes the shards of old generations, except those that `published` or `before` names. (After a compaction, these
// may name old shards.) `before` is the previous generation, which a reader may be about to open.
void RemoveOldGenerations(const std::string& folder, const Manifest& published, const Manifest& before);

// Returns RESOURCE_EXHAUSTED if the folder's file system has less than `needed` bytes free.
absl::Status CheckSpace(const std::string& folder, int64_t needed);

// The files of a generation that is not published yet. The destructor removes them, unless Keep was called.
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

// Publishes a generation whose shards are complete, and keeps its files. `synchronised` is that of PublishManifest.
absl::Status PublishGeneration(const Manifest& manifest, const std::string& folder, UnpublishedFiles& files,
                               absl::Status* synchronised);

// Returns the time as manifests have it: RFC 3339, UTC.
std::string CreationTime();

}  // namespace maxsim::collection
