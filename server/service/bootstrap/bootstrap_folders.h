// The folders that bootstraps and ReadSnapshot make in the folders of store.allowed_roots, and their removal after a
// crash.
//
// A bootstrap makes this server's copy of the collection NAME from snapshots of other servers. It makes two folders in
// a root: the work folder .maxsimd-bootstrap-NAME.N, for the fetched snapshots, and at the end NAME.N, the collection.
// The list of created collections (created_collections.h) decides which folder is served after a restart. If the work
// folder still exists when a server starts, the server removes the work folder and:
//
//   | NAME.N is in the list | the server also removes                                      |
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

// The two folders of one bootstrap. Not thread-safe. The destructor removes both, unless Keep or Finish was called.
class BootstrapFolders {
 public:
  // Makes the work folder in `root`. Chooses the lowest N so that NAME.N neither exists nor is one of the paths
  // `taken`.
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

  // Moves the collection to `target`. Returns ALREADY_EXISTS if that exists.
  absl::Status MoveToTarget();
  // Records in the work folder that the folder at `path` is no longer needed once `target` is in the list of created
  // collections.
  absl::Status NoteReplaced(const std::string& path);
  // Makes the destructor remove nothing. Call this as soon as `target` may be in the list of created collections. If
  // Finish is not called, the next start of the server removes what is left over.
  void Keep() { is_kept_ = true; }
  // Call this when `target` is in the list and the replaced folder is not used any more. Removes the replaced folder
  // and the work folder, and keeps `target`.
  void Finish();

 private:
  BootstrapFolders(std::string root, std::string work, std::string target)
      : root_(std::move(root)), work_(std::move(work)), target_(std::move(target)) {}

  std::string root_;
  std::string work_;  // "" after a move of this object
  std::string target_;
  bool is_kept_ = false;
};

// Removes what bootstraps and ReadSnapshot of an earlier process have left in `root`. `listed` has the paths in the
// list of created collections. Logs what it removes. Call it before collections are loaded.
void RemoveLeftovers(const std::string& root, const std::set<std::string>& listed);

// Returns a new name for a folder of ReadSnapshot. No other process uses it.
std::string NewReadingName();

// Removes folders of ReadSnapshot of earlier processes. Call it at any time.
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
