// The generations that a collection's folder keeps beside the published one: the one that was published before, and the
// one that a server was told to serve. Each has a manifest of its own, whose files are not removed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// The manifest of the generation before the published one.
inline constexpr std::string_view kPreviousManifestName = "collection.previous.json";
// The manifest of the generation that a server was told to serve, with the revision of that reload.
inline constexpr std::string_view kServedManifestName = "collection.served.json";

// The largest revision of a reload: beyond it, some JSON readers do not represent integers exactly. Revisions are times
// in microseconds, which reach it in the year 2255.
inline constexpr uint64_t kMaxReloadRevision = (uint64_t{1} << 53) - 1;

struct ServedGeneration {
  Manifest manifest;
  uint64_t revision = 0;  // 1 .. kMaxReloadRevision; a later reload has a larger one
};

// Returns nullopt if no server has noted a generation in the folder. Returns DATA_LOSS, with the path, for a file that
// cannot be parsed.
absl::StatusOr<std::optional<ServedGeneration>> ReadServed(const Folder& folder);

// Notes a generation, and syncs the note to disk. Two servers may share the folder.
absl::Status WriteServed(const ServedGeneration& served, const std::string& folder);

// Returns nullopt if the folder has no previous generation, DATA_LOSS as above.
absl::StatusOr<std::optional<Manifest>> ReadPrevious(const Folder& folder);

// Returns the manifest of the generation with this number: the published one, the served one or the previous one.
// Returns OUT_OF_RANGE, with the numbers that the folder has, if none of them has this number.
absl::StatusOr<Manifest> FindGeneration(const Folder& folder, int64_t generation);

// Writes the previous manifest. Call it just before the next generation of a collection that is not live is published,
// with the folder's lock held. The previous generation is then the one that a server has noted, or else the published
// one. Does nothing if the folder has neither.
absl::Status KeepPrevious(const std::string& folder);

}  // namespace maxsim::collection
