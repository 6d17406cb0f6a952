// Output files of the shard code: written as a stream with a checksum, made durable step by step, with one writer per
// folder. Errors are as those of file.h.
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
  static constexpr size_t kBufferBytes = size_t{1} << 20;

  // Replaces an existing temporary file; FAILED_PRECONDITION if anything else has that name. Writes go through a buffer
  // of `buffer_bytes`.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path,
                                                            size_t buffer_bytes = kBufferBytes);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  absl::Status Write(const void* data, size_t count);
  absl::Status Write(std::string_view text) { return Write(text.data(), text.size()); }
  // Writes bytes at `offset`, at or after num_bytes(), before Write gets there. They count for num_bytes and the
  // checksum only when TakeAhead has passed them.
  absl::Status WriteAhead(int64_t offset, const void* data, size_t count);
  // Moves over the next `count` bytes, which WriteAhead has written, and reads them back for the checksum.
  absl::Status TakeAhead(int64_t count);
  int64_t num_bytes() const { return num_bytes_; }
  std::string checksum() const { return checksum_.Format(); }  // of everything written

  // Does fsync, close and rename. The folder itself is not synchronised: see SyncFolder.
  absl::Status Commit();

 private:
  OutputFile(std::string path, std::string temporary_path, int fd, size_t buffer_bytes);
  absl::Status Flush();
  absl::Status WriteAll(const char* data, size_t count);

  const std::string path_;
  const std::string temporary_path_;
  const size_t buffer_bytes_;
  int fd_;
  int64_t num_bytes_ = 0;
  std::vector<char> buffer_;
  Checksum checksum_;
};

inline constexpr std::string_view kTemporarySuffix = ".tmp";

absl::Status SyncFolder(const std::string& folder);

// Creates a folder and any missing folders above it, and syncs the parent of each new folder. Without these syncs a
// power cut may take away a new folder with everything in it, even files that were synced. Existing folders stay as
// they are, but their parents are synced too where that is possible, because a call that was killed may have created
// them. On an error it removes the folders that it has created.
absl::Status CreateFolders(const std::string& folder);

// Holds an advisory lock on a file in the folder while the object lives. The lock ends with the process. The destructor
// removes the file; if a process died and left one, the next Acquire takes it over.
class FolderLock {
 public:
  // Fails with FAILED_PRECONDITION if another process, or another object, holds the lock.
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
