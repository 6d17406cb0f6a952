// The folders that bootstraps and ReadSnapshot make under the allowed roots, and how they are removed after a crash.
//
// A bootstrap of the collection NAME makes two folders in a root: the work folder .maxsimd-bootstrap-NAME.N, for the
// fetched snapshots, and at the end NAME.N, the collection. The list of created collections (created_collections.h)
// decides which folder of the collection is served after a restart. As long as the work folder is there, a server that
// starts can tell what is left over:
//
//   | NAME.N is in the list | what is left over                                            |
//   |-----------------------|--------------------------------------------------------------|
//   | no                    | NAME.N, if the bootstrap made it (a file in it says so)      |
//   | yes                   | the folder that NAME.N replaced, which the work folder names |
//
// ReadSnapshot makes folders whose names begin with .maxsimd-reading-.
#pragma once

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace maxsim::service {

// The folders of one bootstrap. Not thread-safe. The destructor removes both, unless Keep was called.
class BootstrapFolders {
 public:
  // Makes the work folder in `root`. Chooses a number N for which there is neither a folder nor a path in `taken`.
  static absl::StatusOr<BootstrapFolders> Make(const std::string& root, const std::string& name,
                                               const std::set<std::string>& taken);
  BootstrapFolders(BootstrapFolders&& other) noexcept;
  BootstrapFolders& operator=(BootstrapFolders&&) = delete;
  ~BootstrapFolders();

  const std::string& work() const { return work_; }
  // The folder in the work folder in which the collection is made.
  std::string unfinished() const;
  // The folder of the finished collection.
  const std::string& target() const { return target_; }

  // Moves the finished collection to `target`. Returns ALREADY_EXISTS if there is something of that name.
  absl::Status MoveToTarget();
  // Writes into the work folder that the folder at `path` is no longer needed once `target` is in the list of created
  // collections.
  absl::Status NoteReplaced(const std::string& path);
  // Makes the destructor remove nothing. Call this as soon as `target` may be in the list. Unless Finish is called, the
  // next start of the server removes what is left over.
  void Keep() { is_kept_ = true; }
  // Call this when `target` is in the list and the replaced folder is not used any more. Removes the replaced folder
  // and the work folder. `target` stays.
  void Finish();

 private:
  BootstrapFolders(std::string root, std::string work, std::string target)
      : root_(std::move(root)), work_(std::move(work)), target_(std::move(target)) {}

  std::string root_;
  std::string work_;  // "" after a move of this object
  std::string target_;
  bool is_kept_ = false;
};

// Removes what bootstraps and ReadSnapshot of a process that has died have left in `root`. `listed` has the paths of
// the list of created collections. Logs what it removes. Call it before collections are
// loaded.
void RemoveLeftovers(const std::string& root, const std::set<std::string>& listed);

// Returns a new name for a folder of ReadSnapshot. No other process uses it.
std::string NewReadingName();

// Removes the folders in `folder` that ReadSnapshot of other processes has left. May be called at any time.
void RemoveReadingLeftovers(const std::string& folder);

// Removes a folder with everything in it. It need not exist. Logs an error.
void RemoveFolder(const std::string& path);

// Calls RemoveFolder when the object is destroyed.
class RemovedAtEnd {
 public:
  explicit RemovedAtEnd(std::string path) : path_(std::move(path)) {}
  ~RemovedAtEnd() { RemoveFolder(path_); }
  RemovedAtEnd(const RemovedAtEnd&) = delete;
  RemovedAtEnd& operator=(const RemovedAtEnd&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

}  // namespace maxsim::service
