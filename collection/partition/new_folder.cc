#include "collection/partition/new_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"

namespace maxsim::collection {
namespace {

absl::Status AlreadyExists(const std::string& path) { return absl::AlreadyExistsError(Cat(path, ": exists already")); }

void RemoveFolder(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

// Returns the path without a slash at its end.
std::filesystem::path WithoutSlash(const std::string& path) {
  const std::filesystem::path given(path);
  return given.filename().empty() ? given.parent_path() : given;
}

// Makes a temporary folder for `name`, with an unused name.
absl::StatusOr<std::string> MakeUnfinished(const std::string& parent, const std::string& name) {
  static std::atomic<uint64_t> num_made{0};
  while (true) {
    // A folder with this name may exist: an earlier process with the same process id, or a process in another
    // container, may have made it. Then tries the next name.
    const std::string path =
        JoinPath(parent, Cat(".", name, ".", ::getpid(), "-", num_made.fetch_add(1), kTemporarySuffix));
    if (::mkdir(path.c_str(), 0777) == 0) return path;
    if (errno != EEXIST) return ErrnoStatus(errno, "cannot create folder", path);
  }
}

// Renames a folder. The new name must not exist yet.
absl::Status RenameToNew(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return absl::OkStatus();
  if (errno == EEXIST) return AlreadyExists(to);
  if (errno != EINVAL && errno != ENOSYS) return ErrnoStatus(errno, "cannot rename", from);
  // The file system does not support RENAME_NOREPLACE. Creates an empty folder with the new name, which fails if the
  // name exists, and renames over it.
  if (::mkdir(to.c_str(), 0777) != 0) {
    return errno == EEXIST ? AlreadyExists(to) : ErrnoStatus(errno, "cannot create folder", to);
  }
  if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  absl::Status status = ErrnoStatus(errno, "cannot rename", from);
  ::rmdir(to.c_str());
  return status;
}

}  // namespace

std::string ParentOf(const std::string& path) {
  const std::filesystem::path folder = WithoutSlash(path);
  return folder.has_parent_path() ? folder.parent_path().string() : ".";
}

absl::Status CheckIsNew(const std::string& path) {
  const std::filesystem::path given = WithoutSlash(path);
  std::error_code ignored;
  const bool exists = std::filesystem::exists(std::filesystem::symlink_status(given, ignored));
  return exists ? AlreadyExists(given.string()) : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NewFolder>> NewFolder::Begin(const std::string& target) {
  if (absl::Status status = CheckIsNew(target); !status.ok()) return status;
  const std::filesystem::path folder = WithoutSlash(target);
  std::string parent = ParentOf(target);
  absl::StatusOr<std::string> made = MakeUnfinished(parent, folder.filename().string());
  if (!made.ok()) return made.status();
  return std::unique_ptr<NewFolder>(new NewFolder(*std::move(made), folder.string(), std::move(parent)));
}

NewFolder::~NewFolder() {
  if (!path_.empty()) RemoveFolder(path_);
}

absl::Status NewFolder::Publish() {
  if (absl::Status status = SyncFolder(path_); !status.ok()) return status;
  if (absl::Status status = RenameToNew(path_, target_); !status.ok()) return status;
  path_.clear();
  absl::Status status = SyncFolder(parent_);
  // Without this sync, a power failure may undo the rename.
  if (!status.ok()) RemoveFolder(target_);
  return status;
}

}  // namespace maxsim::collection
