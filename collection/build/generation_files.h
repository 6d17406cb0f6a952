// The files of generations: which of them go, and when. A build and a compaction hold the folder's lock meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// Removes what did not come to be published: temporaries, and shards of generations behind `published`. A file that
// will not go is no reason to fail: the next build tries again.
void RemoveLeftovers(const std::string& folder, const Manifest& published);

// Removes the shards of generations before the one before `published`, but none that `published` names, or `before`,
// the generation before it, which somebody may be about to open. Shards that a compaction kept have older numbers.
void RemoveOldGenerations(const std::string& folder, const Manifest& published, const Manifest& before);

// RESOURCE_EXHAUSTED unless the folder's file system has so many bytes.
absl::Status CheckSpace(const std::string& folder, int64_t needed);

// Removes the files of a generation that was not published.
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
