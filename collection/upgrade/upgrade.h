// Finds the format versions of a collection's files, and upgrades those that an earlier version of maxsimd wrote.
//
// So far, only logs need upgrades. The format_version of a manifest says which features the collection has, so lower
// ones are still written. Shards, files of codes and files of fields have had only one version.
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
// and SummarizeLog, and the system's error if a file cannot be read. If a later version of maxsimd wrote a file, the
// error names the file, the version found and the version expected: INVALID_ARGUMENT for a manifest, shard, or file of
// codes or fields; FAILED_PRECONDITION for a log.
absl::StatusOr<std::vector<FormatInUse>> ReadFormats(const std::string& folder);

// Upgrades the files that need it to the current versions. Returns the versions before the upgrade, as ReadFormats
// does. The collection gives the same answers as before. After a crash at any time, programs of this version can still
// read the collection, and the next call completes the upgrade. Takes about 100 bytes of memory per document if the log
// is upgraded, and nothing otherwise. Returns FAILED_PRECONDITION if a server has the collection loaded or a build
// runs, and the errors of ReadFormats and of reading shards. Programs of earlier versions do not open an upgraded log.
absl::StatusOr<std::vector<FormatInUse>> UpgradeCollection(const std::string& folder);

}  // namespace maxsim::collection
