// Reads files for the shard code: read-only mappings, positional reads, checksums. Errors have the path and the
// system's reason. NOT_FOUND means a missing file, and RESOURCE_EXHAUSTED a full disk or quota.
#pragma once

#include <sys/types.h>
#include <time.h>
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mapping_guard.h"
#include "base/stop.h"

namespace maxsim {

// Returns the status for a failed system call: "<what> <path>: <strerror>". If the process has run out of descriptors,
// also says what the limit is, and how to raise it.
absl::Status ErrnoStatus(int error, std::string_view what, std::string_view path);

// A regular file that is open for reading. The class is thread-safe.
class InputFile {
 public:
  // Opens a regular file. For any other kind, such as a pipe (which would block, and could not be read twice), returns
  // an error that names the kind. Never waits.
  static absl::StatusOr<InputFile> Open(const std::string& path);

  // Takes over `fd`, the result of open(2) for `path` with O_NONBLOCK. If `fd` is negative, returns the status for
  // `error`, the errno of that call.
  static absl::StatusOr<InputFile> Adopt(int fd, int error, const std::string& path);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // at the time of opening
  int fd() const { return fd_; }

  // Reads `count` bytes at `offset` into `out`. Returns DATA_LOSS if the file ends earlier.
  absl::Status ReadAt(int64_t offset, void* out, size_t count) const;

  // Returns DATA_LOSS if the file's size or modification time has changed since it was opened, because a process wrote
  // to it. (Replacing or removing the file under its name changes neither: this object keeps the old file open.) Takes
  // one system call. Does not detect a write through a mapping that has not yet changed the file's modification time,
  // or a write after which a process restored the old time.
  absl::Status CheckUnchanged() const;

 private:
  InputFile(std::string path, int fd, int64_t size, timespec modified)
      : path_(std::move(path)), fd_(fd), size_(size), modified_(modified) {}
  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
  timespec modified_ = {};
};

// The bytes of a whole file or of a range, in memory, mapped from the file or copied. An empty file gives an empty
// span.
class FileBytes {
 public:
  // The mapping stays valid while the object lives. Mapped bytes change if another process writes to the file. If they
  // can no longer be read, they become zeros and lost() returns true (mapping_guard.h).
  static absl::StatusOr<FileBytes> Map(const InputFile& file);

  // Maps the pages that lie completely inside [begin, end), a range of the file, and copies the rest of the file.
  // Returns the status of `stop` (may be null) if it is stopped.
  static absl::StatusOr<FileBytes> MapRange(const InputFile& file, int64_t begin, int64_t end,
                                            const StopSignal* stop = nullptr);

  // Copies the whole file. Fails with RESOURCE_EXHAUSTED if there is not enough memory, and with the status of `stop`
  // (may be null) once that is stopped.
  static absl::StatusOr<FileBytes> Copy(const InputFile& file, const StopSignal* stop = nullptr);

  FileBytes(FileBytes&& other) noexcept;
  FileBytes& operator=(FileBytes&& other) noexcept;
  ~FileBytes();

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  bool lost() const { return guard_ != nullptr && guard_->lost(); }

  // Unmaps the mapped pages. Their bytes must not be accessed any more.
  void Unmap();

  std::string_view view() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  FileBytes(uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  uint8_t* mapped_ = nullptr;  // the mapped part
  size_t mapped_size_ = 0;
  std::unique_ptr<MappingGuard> guard_;  // null if nothing is mapped
};

// Calls open(2) with O_CLOEXEC, and repeats the call after EINTR.
int OpenRetrying(const std::string& path, int flags, mode_t mode = 0);

// Returns the kind of a file that is not regular, such as "a folder" or "a pipe".
std::string_view KindOf(mode_t mode);

// Follows links. Returns KindOf of the file at `path` if it is not regular, and "" if it is regular or its kind is
// unknown. Use this before opening a file, because opening a pipe, a device or a socket may wait forever.
std::string_view OtherKind(const std::string& path);

// Reads a whole file. Returns INVALID_ARGUMENT if it is larger than `max_bytes`.
absl::StatusOr<std::string> ReadSmallFile(const InputFile& file, int64_t max_bytes);
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t max_bytes);

// Reads a file of any kind to its end, even a pipe. Does not wait for a writer: a named pipe that no process has open
// for writing is empty. If a file is not regular, more than 64 MiB are an error (/dev/zero has no end). On an error,
// returns nullopt with the reason in errno.
std::optional<std::string> ReadToEnd(const std::string& path);

// Computes XXH3-128 over a stream of bytes.
class Checksum {
 public:
  Checksum();
  void Update(const void* data, size_t count);
  // Returns "xxh3-128:" and 32 hex digits, as `xxhsum -H2` prints them. May be called at any time.
  std::string Format() const;

 private:
  struct FreeState {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, FreeState> state_;
};

inline constexpr std::string_view kChecksumPrefix = "xxh3-128:";

// Returns true for text that Checksum::Format could have returned.
bool IsChecksum(std::string_view text);

// Returns the names of the regular files in a folder, sorted.
absl::StatusOr<std::vector<std::string>> ListFiles(const std::string& folder);

// Returns how many bytes a user without privileges may still write to the folder's file system.
absl::StatusOr<int64_t> FreeDiskBytes(const std::string& folder);

std::string JoinPath(std::string_view folder, std::string_view name);

}  // namespace maxsim
