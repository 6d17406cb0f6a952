// Finds the format versions of a collection's files, and upgrades those that an earlier version of maxsimd wrote.
//
// A manifest's format_version says which features the collection has, and a shard, a file of codes and a file of fields
// have had one version so far. So only logs have earlier versions that differ from what is written today.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace maxsim::collection {

// The files of one kind, which all have the same format version.
struct FormatInUse {
  std::string_view kind;  // "manifest", "shards", "codes", "fields" or "log"
  int64_t num_files = 0;  // a log counts as one
  uint64_t version = 0;
  uint64_t current = 0;  // the version that this program would write in its place
  // Whether UpgradeCollection has something to do: the version is an earlier one, or an upgrade was interrupted.
  bool needs_upgrade = false;
};

// Reads the versions of the collection in `folder`: of the manifest, of each kind of file that it names, and of the
// log. Changes nothing, and may be called while a server has the collection loaded. Returns the errors of ReadManifest
// and SummarizeLog; INVALID_ARGUMENT, which names the file, the version found and the versions that are read, if a
// later version of maxsimd wrote a file; DATA_LOSS or the system's error if a file cannot be read.
absl::StatusOr<std::vector<FormatInUse>> ReadFormats(const std::string& folder);

// Upgrades the files that need it to the current versions, and returns what ReadFormats returned before. The collection
// answers as before. A crash at any time leaves a collection that programs of this version read, and that the next call
// upgrades. Takes about 100 bytes of memory per document if the log is upgraded, and nothing otherwise. Returns
// FAILED_PRECONDITION if a server has the collection loaded or a build runs, and the errors of ReadFormats and of
// reading shards. Programs of earlier versions do not open an upgraded log.
absl::StatusOr<std::vector<FormatInUse>> UpgradeCollection(const std::string& folder);

}  // namespace maxsim::collection
