// The file in each allowed root that lists the live collections that clients have created under it, so that a server
// serves them again after a restart.
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
  std::string path;       // of its folder, without symbolic links
  std::string residency;  // as in admin.proto
  bool replicate = false;
};

// The class is thread-safe. Two servers must not share a root.
class CreatedCollections {
 public:
  // Returns what is listed in `root`; nothing where there is no file. DATA_LOSS for a file that cannot be understood.
  absl::StatusOr<std::vector<CreatedCollection>> List(const std::string& root) const;

  // Lists a collection in `root`, in place of one of the same name, and waits for the disk.
  absl::Status Add(const std::string& root, const CreatedCollection& created);

  // Takes a name off the list of `root`, where it is on it.
  absl::Status Remove(const std::string& root, const std::string& name);

 private:
  mutable Mutex mutex_;
};

}  // namespace maxsim::service
