// Checks the file paths in a copy of a collection that comes from another server or from a backup.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace maxsim::collection {

// The maximum length of a file's path in a snapshot. Names of shards have at most 255 bytes, the limit of file systems.
inline constexpr size_t kMaxSnapshotPathBytes = 512;

// Returns what is wrong with the path of a file in a snapshot, such as "is empty"; "" if the path is allowed. An
// allowed path is relative. Each of its components has 1 to 255 printable ASCII characters other than a blank and a
// backslash, is neither "." nor "..", and does not have the suffix of temporary files.
std::string SnapshotPathProblem(std::string_view path);

}  // namespace maxsim::collection
