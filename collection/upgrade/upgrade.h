// Finds the format versions of a collection's files, and upgrades those that an earlier version of maxsimd wrote.
//
// So far, only logs need upgrades. A manifest's format_version says which features the collection has, so manifests of
// all versions are current. Shards, code files and field files have had only one version.
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
  // Whether UpgradeCollection must upgrade the files: the version is an earlier one, or an upgrade was interrupted.
  bool needs_upgrade = false;
};

// Reads the format versions of the collection in `folder`: of the manifest, of each kind of file that it names, and of
// the log. Changes nothing, and may be called while a server has the collection loaded. If a later version of maxsimd
// wrote a file, returns INVALID_ARGUMENT, or FAILED_PRECONDITION for a log, with the found and the expected version.
// Other errors are those of ReadManifest and SummarizeLog, and the system's error if a file cannot be read.
absl::StatusOr<std::vector<FormatInUse>> ReadFormats(const std::string& folder);

// Upgrades files of earlier versions to the current ones, and returns the versions before the upgrade. The collection
// gives the same answers as before. After a crash, programs of this version can still read the collection, and the next
// call completes the upgrade. Earlier versions of maxsimd cannot open an upgraded log. Upgrading a log takes about 100
// bytes of memory per document. Returns FAILED_PRECONDITION if a server has the collection loaded or a build runs.
// Other errors are those of ReadFormats and of reading shards.
absl::StatusOr<std::vector<FormatInUse>> UpgradeCollection(const std::string& folder);

}  // namespace maxsim::collection
