// The mark of a log: the file "acknowledged" next to its database. It locks the log, and records what the log must at
// least have: the last acknowledged write, and the lengths of two of RocksDB's files.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace maxsim::collection {

// Lower limits of the lengths of two files of the database. RocksDB only appends to these files, so a shorter file has
// lost bytes. A file number of 0 means unknown.
struct WrittenFiles {
  uint64_t wal_number = 0;  // the write-ahead log that was last written to
  uint64_t wal_bytes = 0;
  uint64_t manifest_number = 0;
  uint64_t manifest_bytes = 0;
  uint64_t manifest_hash = 0;  // XXH3 of the first `manifest_bytes` bytes
};

// A log that has less than its mark says has lost writes, even if RocksDB finds no error: to RocksDB, a truncated file
// looks like a write that a crash cut off. The mark is written without waiting for the disk, so after a power failure
// it may be older than the log, but never newer. Thread-safe.
class LogMark {
 public:
  // Opens or creates the mark in `log_folder` and locks it until the object dies. If the mark is already open, in this
  // or another process, returns FAILED_PRECONDITION, which names the process and `folder` (the collection's).
  static absl::StatusOr<std::unique_ptr<LogMark>> Open(const std::string& log_folder, const std::string& folder);
  ~LogMark();
  LogMark(const LogMark&) = delete;
  LogMark& operator=(const LogMark&) = delete;

  // Returns the recorded sequence; 0 if none can be read.
  uint64_t sequence() const;
  // Returns the recorded lengths; zeros if the file has none that can be read (version 0.2 wrote none).
  WrittenFiles files() const;

  // Record the last sequence, or lengths of files. The sequence must not be smaller than the recorded one. Errors are
  // ignored: no write is lost then, but a later check may miss a loss. Each call takes one system call.
  void Note(uint64_t sequence);
  void NoteWal(uint64_t number, uint64_t num_bytes);
  void NoteWrite(uint64_t sequence, uint64_t wal_number, uint64_t wal_bytes);
  void NoteManifest(uint64_t number, uint64_t num_bytes, uint64_t hash);

  // Returns FAILED_PRECONDITION if the file is no longer at its path, because the log's folder was deleted or moved.
  // Then writes must not be acknowledged: the next start would not find them. Takes one system call.
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

// Reads the mark in `log_folder`, even if another process has it open. Values that cannot be read are zero.
LogMarkContents ReadLogMark(const std::string& log_folder);

}  // namespace maxsim::collection
