// Output files of the shard code. A file is written as a stream with a checksum, and appears only when it is complete
// and on disk. FolderLock ensures that a folder has one writer. Errors are like those of file.h.
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

// Writes a new file from front to back under a temporary name (`path` + ".tmp"). Commit gives the file its own name.
// Without a Commit that succeeded, the destructor removes the file.
class OutputFile {
 public:
  static constexpr size_t kBufferBytes = size_t{1} << 20;

  // Replaces an existing temporary file. Returns FAILED_PRECONDITION if something other than a file has the temporary
  // name. Writes go through a buffer of `buffer_bytes`.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path,
                                                            size_t buffer_bytes = kBufferBytes);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  absl::Status Write(const void* data, size_t count);
  absl::Status Write(std::string_view text) { return Write(text.data(), text.size()); }
  // Writes bytes at `offset`, which is at least num_bytes(). They are not part of the stream yet: num_bytes() and the
  // checksum include them only after TakeAhead.
  absl::Status WriteAhead(int64_t offset, const void* data, size_t count);
  // Adds the next `count` bytes to the stream. WriteAhead must have written them. Reads them back for the checksum.
  absl::Status TakeAhead(int64_t count);
  int64_t num_bytes() const { return num_bytes_; }
  std::string checksum() const { return checksum_.Format(); }  // of the first num_bytes()

  // Calls fsync, close and rename. Does not sync the folder: see SyncFolder.
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
// power failure may remove a new folder with all its files, even files that were synced. Parents of existing folders
// are synced too if possible, because a killed process may have created these folders without a sync. On an error,
// removes the folders that it has created.
absl::Status CreateFolders(const std::string& folder);

// An advisory lock on a file in the folder, held while the object lives. If the process dies, the lock ends. The
// destructor removes the file. If a dead process left the file, the next Acquire takes it over.
class FolderLock {
 public:
  // Fails with FAILED_PRECONDITION if another process, or another object, holds the lock.
  static absl::StatusOr<FolderLock> Acquire(const std::string& folder);
  FolderLock(FolderLock&& other) noexcept;
  FolderLock& operator=(FolderLock&&) = delete;
  ~FolderLock();

 private:
  FolderLock(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  // Returns whether the file with the lock's name is still the one that is open.
  bool HasName() const;

  std::string path_;
  int fd_;
};

inline constexpr std::string_view kLockFileName = ".maxsim-build.lock";

}  // namespace maxsim
