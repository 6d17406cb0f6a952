// Creates a folder atomically: it appears under its name complete, or not at all.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace maxsim::collection {

// Returns the parent folder of `path`, which may end with a slash; "." if `path` has no folder in it.
std::string ParentOf(const std::string& path);

// Returns ALREADY_EXISTS if there is a file or a folder at `path`.
absl::Status CheckIsNew(const std::string& path);

// A temporary folder that Publish renames to its target. For one thread.
class NewFolder {
 public:
  // Creates an empty temporary folder named ".NAME.PID-N.tmp" in the parent of `target`. The parent must exist. Returns
  // ALREADY_EXISTS if `target` exists.
  static absl::StatusOr<std::unique_ptr<NewFolder>> Begin(const std::string& target);
  // Removes the temporary folder with everything in it, unless Publish has succeeded.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::string& path() const { return path_; }  // of the temporary folder

  // Renames the folder to its target, and syncs the folder and its parent. The files in the folder must be on disk
  // already. Returns ALREADY_EXISTS if the target exists by now. After any error nothing was published. Call it once.
  absl::Status Publish();

 private:
  NewFolder(std::string path, std::string target, std::string parent)
      : path_(std::move(path)), target_(std::move(target)), parent_(std::move(parent)) {}

  std::string path_;  // "" once it is published
  const std::string target_;
  const std::string parent_;
};

}  // namespace maxsim::collection
