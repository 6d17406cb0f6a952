#include "base/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace maxsim {
namespace {

constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
// With O_NONBLOCK, opening a pipe that has no writer does not hang. The flag means nothing for regular files.
constexpr int kFileFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

// The maximum number of attempts to resolve a link. An attempt fails if the link was replaced in the meantime.
constexpr int kAttempts = 8;

int OpenAt(int folder, const std::string& name, int flags) {
  int fd;
  do {
    fd = ::openat(folder, name.c_str(), flags);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// Returns the part of `path` after `root`, without a leading slash. Returns "" for the root itself.
std::string_view Behind(std::string_view root, std::string_view path) {
  path.remove_prefix(root.size());
  while (!path.empty() && path.front() == '/') path.remove_prefix(1);
  return path;
}

// Opens `relative` beneath `root_fd` component by component, and follows no links. Opens the last component with
// `flags`. If `relative` is "", opens the root again. On an error returns -1 and sets errno, which is ELOOP or
// ENOTDIR if the path has a link.
int Walk(int root_fd, std::string_view relative, int flags) {
  int folder = OpenAt(root_fd, ".", relative.empty() ? flags : kFolderFlags);
  while (folder >= 0 && !relative.empty()) {
    const size_t slash = relative.find('/');
    const std::string name(relative.substr(0, slash));
    relative.remove_prefix(slash == std::string_view::npos ? relative.size() : slash + 1);
    // A resolved path has no "..". If there is one, this call fails, because the path could lead out of the root.
    const int next = name == ".." ? (errno = ELOOP, -1) : OpenAt(folder, name, relative.empty() ? flags : kFolderFlags);
    const int error = errno;
    ::close(folder);
    errno = error;
    folder = next;
  }
  return folder;
}

absl::Status LeadsOut(std::string_view path, std::string_view root) {
  return absl::PermissionDeniedError(
      Cat(path, ": is, or was replaced by, a symbolic link that leads to no file beneath ", root));
}

}  // namespace

bool IsBeneath(std::string_view root, std::string_view path) {
  while (root.size() > 1 && root.back() == '/') root.remove_suffix(1);
  if (root.empty() || path.substr(0, root.size()) != root) return false;
  return root == "/" || path.size() == root.size() || path[root.size()] == '/';
}

absl::StatusOr<Folder> Folder::OpenBeneath(const std::string& root, const std::string& path) {
  if (!IsBeneath(root, path)) return LeadsOut(path, root);
  // The operator chose the path to the root, so links in it are allowed.
  const int root_fd = OpenAt(AT_FDCWD, root, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root_fd < 0) return ErrnoStatus(errno, "cannot open folder", root);
  const int fd = Walk(root_fd, Behind(root, path), kFolderFlags);
  if (fd < 0) {
    const int error = errno;
    ::close(root_fd);
    // O_DIRECTORY together with O_NOFOLLOW gives ENOTDIR for a link.
    if (error == ELOOP || error == ENOTDIR) return LeadsOut(path, root);
    return ErrnoStatus(error, "cannot open folder", path);
  }
  return Folder(root, path, root_fd, fd);
}

Folder::Folder(Folder&& other) noexcept
    : path_(std::move(other.path_)),
      root_(std::move(other.root_)),
      root_fd_(std::exchange(other.root_fd_, -1)),
      fd_(std::exchange(other.fd_, -1)) {}

Folder::~Folder() {
  if (root_fd_ >= 0) ::close(root_fd_);
  if (fd_ >= 0) ::close(fd_);
}

absl::StatusOr<InputFile> Folder::Open(std::string_view name) const {
  const std::string path = JoinPath(path_, name);
  if (root_.empty()) return InputFile::Open(path);
  int fd = OpenAt(fd_, std::string(name), kFileFlags);
  for (int attempt = 0; fd < 0 && errno == ELOOP && attempt < kAttempts; ++attempt) {
    // The resolved path may change before it is opened. So each of its components is opened in turn, without following
    // links: the file is then certainly beneath the root.
    std::error_code error;
    const std::string target = std::filesystem::canonical(path, error).string();
    if (error || !IsBeneath(root_, target) || target.size() == root_.size()) return LeadsOut(path, root_);
    fd = Walk(root_fd_, Behind(root_, target), kFileFlags);
  }
  if (fd < 0 && errno == ELOOP) return LeadsOut(path, root_);
  return InputFile::Adopt(fd, errno, path);
}

}  // namespace maxsim
