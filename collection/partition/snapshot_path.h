// Checks the file paths in a copy of a collection that comes from another server or from a backup.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace maxsim::collection {

// The maximum length of a file's path. Paths in a log have about 30 bytes, and names of shards at most 255, the limit
// of file systems.
inline constexpr size_t kMaxSnapshotPathBytes = 512;

// Returns what is wrong with the path of a file in a snapshot ("is empty"), or "" if the path is allowed. An allowed
// path is relative, and consists of components with slashes between them. Each component has 1 to 255 printable ASCII
// characters other than a blank and a backslash, is neither "." nor "..", and does not have the suffix of temporary
// files.
std::string SnapshotPathProblem(std::string_view path);

}  // namespace maxsim::collection
