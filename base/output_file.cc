#include "base/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"

namespace maxsim {
namespace {

constexpr int kLockAttempts = 1000;  // an attempt fails only if another build ends at the same moment

}  // namespace

OutputFile::OutputFile(std::string path, std::string temporary_path, int fd, size_t buffer_bytes)
    : path_(std::move(path)), temporary_path_(std::move(temporary_path)), buffer_bytes_(buffer_bytes), fd_(fd) {
  buffer_.reserve(buffer_bytes_);
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path, size_t buffer_bytes) {
  std::string temporary_path = Cat(path, kTemporarySuffix);
  // With O_EXCL, this call never opens an existing file. Opening a pipe would wait for a reader, and opening a link
  // would write to another file.
  int fd = OpenRetrying(temporary_path, O_RDWR | O_CREAT | O_EXCL, 0644);
  if (fd < 0 && errno == EEXIST) {
    struct stat info;
    if (::lstat(temporary_path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
      return absl::FailedPreconditionError(
          Cat("cannot create ", temporary_path, ": ", KindOf(info.st_mode), " of that name is in the way; remove it"));
    }
    ::unlink(temporary_path.c_str());
    fd = OpenRetrying(temporary_path, O_RDWR | O_CREAT | O_EXCL, 0644);
  }
  if (fd < 0) return ErrnoStatus(errno, "cannot create", temporary_path);
  return std::unique_ptr<OutputFile>(new OutputFile(path, std::move(temporary_path), fd, buffer_bytes));
}

OutputFile::~OutputFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_path_.c_str());
}

absl::Status OutputFile::Write(const void* data, size_t count) {
  if (count == 0) return absl::OkStatus();
  checksum_.Update(data, count);
  num_bytes_ += static_cast<int64_t>(count);
  const char* bytes = static_cast<const char*>(data);
  if (buffer_.size() + count > buffer_bytes_) {
    if (absl::Status status = Flush(); !status.ok()) return status;
  }
  if (count >= buffer_bytes_) return WriteAll(bytes, count);
  buffer_.insert(buffer_.end(), bytes, bytes + count);
  return absl::OkStatus();
}

absl::Status OutputFile::Flush() {
  absl::Status status = WriteAll(buffer_.data(), buffer_.size());
  buffer_.clear();
  return status;
}

absl::Status OutputFile::WriteAll(const char* data, size_t count) {
  while (count > 0) {
    const ssize_t done = ::write(fd_, data, std::min(count, size_t{1} << 30));
    if (done < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "cannot write", temporary_path_);
    }
    data += done;
    count -= static_cast<size_t>(done);
  }
  return absl::OkStatus();
}

absl::Status OutputFile::WriteAhead(int64_t offset, const void* data, size_t count) {
  const char* bytes = static_cast<const char*>(data);
  while (count > 0) {
    const ssize_t done = ::pwrite(fd_, bytes, std::min(count, size_t{1} << 30), offset);
    if (done < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "cannot write", temporary_path_);
    }
    bytes += done;
    offset += done;
    count -= static_cast<size_t>(done);
  }
  return absl::OkStatus();
}

absl::Status OutputFile::TakeAhead(int64_t count) {
  if (absl::Status status = Flush(); !status.ok()) return status;
  buffer_.resize(buffer_bytes_);
  while (count > 0) {
    const size_t wanted = std::min(buffer_bytes_, static_cast<size_t>(count));
    const ssize_t done = ::pread(fd_, buffer_.data(), wanted, num_bytes_);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return ErrnoStatus(errno, "cannot read", temporary_path_);
    if (done == 0)
      return absl::DataLossError(Cat(temporary_path_, ": was cut off at byte ", num_bytes_, " while it was written"));
    checksum_.Update(buffer_.data(), static_cast<size_t>(done));
    num_bytes_ += done;
    count -= done;
  }
  buffer_.clear();
  if (::lseek(fd_, num_bytes_, SEEK_SET) < 0) return ErrnoStatus(errno, "cannot write", temporary_path_);
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  if (absl::Status status = Flush(); !status.ok()) return status;
  if (::fsync(fd_) != 0) return ErrnoStatus(errno, "cannot synchronise", temporary_path_);
  // fsync has succeeded, so the bytes are on the disk. An error of close can be ignored.
  ::close(std::exchange(fd_, -1));
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary_path_.c_str());
    return ErrnoStatus(error, "cannot rename to", path_);
  }
  return absl::OkStatus();
}

absl::Status SyncFolder(const std::string& folder) {
  const int fd = OpenRetrying(folder, O_RDONLY | O_DIRECTORY);
  if (fd < 0) return ErrnoStatus(errno, "cannot open folder", folder);
  const int result = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  if (result != 0) return ErrnoStatus(error, "cannot synchronise folder", folder);
  return absl::OkStatus();
}

namespace {

std::string ParentOf(const std::filesystem::path& folder) {
  return folder.has_parent_path() ? folder.parent_path().string() : ".";
}

}  // namespace

absl::Status CreateFolders(const std::string& folder) {
  std::vector<std::filesystem::path> missing;  // the innermost first
  std::error_code error;
  std::filesystem::path path = folder;
  if (!path.has_filename()) path = path.parent_path();  // for a trailing slash: "folder/"
  for (; !path.empty() && !std::filesystem::exists(path, error); path = path.parent_path()) missing.push_back(path);
  absl::Status status;
  std::filesystem::create_directories(folder, error);
  if (error) status = ErrnoStatus(error.value(), "cannot create folder", folder);
  // Syncs all parent folders, because a process that was killed may have created folders without syncing them. Errors
  // are ignored: the user may not be allowed to read a parent, or the file system may not sync folders.
  for (; path.has_relative_path(); path = path.parent_path()) SyncFolder(ParentOf(path)).IgnoreError();
  for (auto made = missing.rbegin(); made != missing.rend() && status.ok(); ++made)
    status = SyncFolder(ParentOf(*made));
  if (status.ok()) return status;
  for (const std::filesystem::path& made : missing) ::rmdir(made.c_str());
  return status;
}

absl::StatusOr<FolderLock> FolderLock::Acquire(const std::string& folder) {
  const std::string path = JoinPath(folder, kLockFileName);
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    const int fd = OpenRetrying(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0644);
    if (fd < 0) return ErrnoStatus(errno, "cannot create", path);
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      ::close(fd);
      if (error != EWOULDBLOCK) return ErrnoStatus(error, "cannot lock", path);
      return absl::FailedPreconditionError(Cat(folder, ": another build is writing to this folder"));
    }
    FolderLock lock(path, fd);
    // The previous holder may have removed the file after this process opened it and before it locked it. In this
    // case another process could create and lock a new file, so the loop tries again.
    if (lock.HasName()) return lock;
  }
  return absl::UnavailableError(
      Cat(path, ": another program removed it ", kLockAttempts, " times, each time as soon as it was created"));
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}

FolderLock::~FolderLock() {
  if (fd_ < 0) return;
  // Removes the file before the lock is released, so that no other process locks this file and then loses it.
  if (HasName()) ::unlink(path_.c_str());
  ::close(fd_);
}

bool FolderLock::HasName() const {
  struct stat open_file;
  struct stat named;
  return ::fstat(fd_, &open_file) == 0 && ::lstat(path_.c_str(), &named) == 0 && open_file.st_dev == named.st_dev &&
         open_file.st_ino == named.st_ino;
}

}  // namespace maxsim
