// Checks the paths of the files of a copy of a collection that comes from another server or from a backup.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace maxsim::collection {

// The longest path of a file. Paths of a log have about 30 bytes, and those of shards at most a file system's 255.
inline constexpr size_t kMaxSnapshotPathBytes = 512;

// Returns why a snapshot may have no file of this path, or "". A path has components of printable ASCII characters with
// slashes between them, and none is "", "." or "..", or has a temporary file's name.
std::string SnapshotPathProblem(std::string_view path);

}  // namespace maxsim::collection
