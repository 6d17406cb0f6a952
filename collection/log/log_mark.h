// The file "acknowledged" next to a log's database. It locks the log, and records the least that the log must hold: the
// last acknowledged write, and the lengths of RocksDB's files.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace maxsim::collection {

// Known lengths of two files of the database. RocksDB only appends to these files, so a shorter file has lost bytes. A
// file number of 0 means unknown.
struct WrittenFiles {
  uint64_t wal_number = 0;  // the write-ahead log that was last written to
  uint64_t wal_bytes = 0;
  uint64_t manifest_number = 0;
  uint64_t manifest_bytes = 0;
  uint64_t manifest_hash = 0;  // XXH3 of the first `manifest_bytes` bytes
};

// Updates the file without waiting for the disk, so after a power failure it may be older than the log, but never
// newer. A log that holds less than its mark says has lost writes, even if its own checksums are right: a damaged
// length near the end of a write-ahead log looks like a write that a crash cut off, and so does a truncated file.
// Thread-safe.
class LogMark {
 public:
  // Opens or creates the mark of the log in `log_folder` and locks it, against other processes and against a second
  // Open in this one. If the log is already open, returns FAILED_PRECONDITION, which names `folder` (the collection's)
  // and the process.
  static absl::StatusOr<std::unique_ptr<LogMark>> Open(const std::string& log_folder, const std::string& folder);
  ~LogMark();
  LogMark(const LogMark&) = delete;
  LogMark& operator=(const LogMark&) = delete;

  // Returns the recorded sequence; 0 if none can be read.
  uint64_t sequence() const;
  // Returns zeros if the file has no readable lengths (those of version 0.2 have none).
  WrittenFiles files() const;

  // Record a sequence, which must not be smaller than the recorded one, and lengths of files. Each call is one system
  // call. If it fails, no write is lost, but a later check may miss a loss.
  void Note(uint64_t sequence);
  void NoteWal(uint64_t number, uint64_t num_bytes);
  void NoteWrite(uint64_t sequence, uint64_t wal_number, uint64_t wal_bytes);
  void NoteManifest(uint64_t number, uint64_t num_bytes, uint64_t hash);

  // Returns FAILED_PRECONDITION if the file is no longer at its path. If the log's folder was deleted or moved, the log
  // must not acknowledge writes, because the next start would not find them. Takes one system call.
  absl::Status CheckInPlace() const;

  // Syncs the file to disk.
  absl::Status Sync();

 private:
  LogMark(std::string path, std::string folder, int fd) : path_(std::move(path)), folder_(std::move(folder)), fd_(fd) {}
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const std::string folder_;  // the collection's
  const int fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  mutable Mutex mutex_;
  uint64_t sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  WrittenFiles files_ ABSL_GUARDED_BY(mutex_);
};

// The contents of a mark.
struct LogMarkContents {
  uint64_t sequence = 0;
  WrittenFiles files;
};

// Reads the mark of a log, even if the log is open in another process. Values that cannot be read are zero.
LogMarkContents ReadLogMark(const std::string& log_folder);

}  // namespace maxsim::collection
