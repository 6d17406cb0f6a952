// The folder of a collection's files. It may limit where symbolic links can lead.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file.h"

namespace maxsim {

// The class is thread-safe.
class Folder {
 public:
  // The folder at `path`, without limits on symbolic links. For paths from an operator. Opens nothing yet.
  explicit Folder(std::string path) : path_(std::move(path)) {}

  // Returns the folder at `path`, which is `root` or lies beneath it. Both paths must be absolute and have no symbolic
  // links, "." or "..". Every file that Open returns lies beneath the folder that `root` names during this call, even
  // if a process renames folders or replaces them by links: OpenBeneath opens each folder through its parent and keeps
  // the folder open, so the checked folder is also the one that is used. Returns NOT_FOUND, or PERMISSION_DENIED if the
  // path has a link (which was put there after the caller resolved the path). Holds two descriptors.
  static absl::StatusOr<Folder> OpenBeneath(const std::string& root, const std::string& path);

  Folder(Folder&& other) noexcept;
  Folder& operator=(Folder&&) = delete;
  ~Folder();

  const std::string& path() const { return path_; }

  // Opens a regular file in the folder. `name` is a plain file name. With a root, only follows symbolic links that lead
  // to a file beneath the root. For other links returns PERMISSION_DENIED; the message does not say where the link
  // leads.
  absl::StatusOr<InputFile> Open(std::string_view name) const;

 private:
  Folder(std::string root, std::string path, int root_fd, int fd)
      : path_(std::move(path)), root_(std::move(root)), root_fd_(root_fd), fd_(fd) {}

  std::string path_;
  std::string root_;  // "" if links may lead anywhere; both descriptors are then -1
  int root_fd_ = -1;
  int fd_ = -1;
};

// Returns true if `path` is `root` or lies beneath it. Both must be absolute and normalised ("/a/b").
bool IsBeneath(std::string_view root, std::string_view path);

}  // namespace maxsim
