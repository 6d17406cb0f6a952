// The folder that a collection's files are opened from, and how far their paths may lead.
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
  // The folder at `path`, wherever symbolic links lead: for paths that an operator named. Nothing is opened yet.
  explicit Folder(std::string path) : path_(std::move(path)) {}

  // Returns the folder at `path`, which lies in `root` or is `root`: both absolute and without symbolic links, "." and
  // "..". Every file that Open returns lies beneath the folder that `root` named during this call, whatever is renamed,
  // or replaced by a link, meanwhile: folders are opened one inside the other and held, so that what was checked is
  // what is used. PERMISSION_DENIED if a link stands in the path, which then has been put there since it was
  // resolved; NOT_FOUND. Holds two descriptors.
  static absl::StatusOr<Folder> OpenBeneath(const std::string& root, const std::string& path);

  Folder(Folder&& other) noexcept;
  Folder& operator=(Folder&&) = delete;
  ~Folder();

  const std::string& path() const { return path_; }

  // Returns a regular file of the folder. `name` is a plain file name. Beneath a root, follows a symbolic link that
  // leads to a file beneath that root. For other links, PERMISSION_DENIED, which does not tell what they lead to.
  absl::StatusOr<InputFile> Open(std::string_view name) const;

 private:
  Folder(std::string root, std::string path, int root_fd, int fd)
      : path_(std::move(path)), root_(std::move(root)), root_fd_(root_fd), fd_(fd) {}

  std::string path_;
  std::string root_;  // "" if links may lead anywhere; then there are no descriptors
  int root_fd_ = -1;
  int fd_ = -1;
};

// Returns true when `path` is `root` or lies beneath it, both absolute and normal ("/a/b").
bool IsBeneath(std::string_view root, std::string_view path);

}  // namespace maxsim
