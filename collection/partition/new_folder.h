// A folder that appears under its name complete, or not at all.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace maxsim::collection {

// Returns the folder that holds `path`, which may end with a slash; "." if the path names none.
std::string ParentOf(const std::string& path);

// Returns ALREADY_EXISTS if there is a file or a folder at `path`.
absl::Status CheckIsNew(const std::string& path);

// A temporary folder beside the place where it will appear. For one thread.
class NewFolder {
 public:
  // Makes an empty temporary folder in the parent of `target`, which must exist. Its name is ".NAME.PID-N.tmp". Returns
  // ALREADY_EXISTS if `target` exists.
  static absl::StatusOr<std::unique_ptr<NewFolder>> Begin(const std::string& target);
  // Removes the temporary folder with everything in it, unless Publish has succeeded.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::string& path() const { return path_; }  // of the temporary folder

  // Renames the folder to its target, and syncs it and its parent. The files in it must be on disk already. Returns
  // ALREADY_EXISTS if the target exists by now. After an error there is no folder at the target. Call it once.
  absl::Status Publish();

 private:
  NewFolder(std::string path, std::string target, std::string parent)
      : path_(std::move(path)), target_(std::move(target)), parent_(std::move(parent)) {}

  std::string path_;  // "" once it is published
  const std::string target_;
  const std::string parent_;
};

}  // namespace maxsim::collection
