// A file in each allowed root (a folder of store.allowed_roots) that lists the live collections that clients have
// created in it. After a restart the server reads the file and serves these collections again.
#pragma once

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace maxsim::service {

inline constexpr char kCreatedCollectionsName[] = ".maxsimd-created.json";

struct CreatedCollection {
  std::string name;
  std::string path;       // of the collection's folder, without symbolic links
  std::string residency;  // as in admin.proto
  bool replicate = false;
};

// Thread-safe. Two servers must not share a root.
class CreatedCollections {
 public:
  // Returns the entries of the file in `root`, or an empty list if there is no file. Returns DATA_LOSS if the file
  // cannot be parsed, and FAILED_PRECONDITION if a later version of maxsimd wrote it.
  absl::StatusOr<std::vector<CreatedCollection>> List(const std::string& root) const;

  // Adds or replaces a collection in the file in `root`, and syncs it to disk.
  absl::Status Add(const std::string& root, const CreatedCollection& created);

  // Removes a name from the file in `root`, if it is there.
  absl::Status Remove(const std::string& root, const std::string& name);
  // Removes a name from the file in `root`, if it is there with this path.
  absl::Status RemoveOf(const std::string& root, const std::string& name, const std::string& path);

 private:
  mutable Mutex mutex_;
};

}  // namespace maxsim::service
