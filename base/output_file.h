// Files as the shard code writes them: streamed with a checksum, made durable step by step, and one writer to a folder.
// Errors are as those of file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file.h"

namespace maxsim {

// Writes a new file from front to back under a temporary name (`path` + ".tmp"). It appears under its own name when
// Commit succeeds; without Commit the destructor removes it.
class OutputFile {
 public:
  // Takes the place of a temporary file that is there already; FAILED_PRECONDITION for anything else of that name.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  absl::Status Write(const void* data, size_t count);
  absl::Status Write(std::string_view text) { return Write(text.data(), text.size()); }
  int64_t num_bytes() const { return num_bytes_; }
  std::string checksum() const { return checksum_.Format(); }  // of everything written

  // Does fsync, close and rename. The folder itself is not synchronised: see SyncFolder.
  absl::Status Commit();

 private:
  OutputFile(std::string path, std::string temporary_path, int fd);
  absl::Status Flush();
  absl::Status WriteAll(const char* data, size_t count);

  const std::string path_;
  const std::string temporary_path_;
  int fd_;
  int64_t num_bytes_ = 0;
  std::vector<char> buffer_;
  Checksum checksum_;
};

inline constexpr std::string_view kTemporarySuffix = ".tmp";

absl::Status SyncFolder(const std::string& folder);

// Holds an advisory lock on a file in the folder while the object lives. A process that dies gives it up. The file goes
// with the object; one that a dead process left is taken over.
class FolderLock {
 public:
  // Fails with FAILED_PRECONDITION when somebody else holds it.
  static absl::StatusOr<FolderLock> Acquire(const std::string& folder);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  FolderLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  // Returns whether the open file is the one that has the lock's name.
  bool HasName() const;

  std::string path_;
  int fd_;
};

inline constexpr std::string_view kLockFileName = ".maxsim-build.lock";

}  // namespace maxsim
