// The file "acknowledged" beside a log's database. It locks the log, and says how much the log must hold at least: the
// last acknowledged write, and how long RocksDB's own files were.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace maxsim::collection {

// How long two files of the database were, once they were on the disk. RocksDB only appends to them, so a shorter file
// has lost bytes. Number 0: unknown.
struct WrittenFiles {
  uint64_t wal_number = 0;  // of the write-ahead log that was written to last
  uint64_t wal_bytes = 0;
  uint64_t manifest_number = 0;
  uint64_t manifest_bytes = 0;
  uint64_t manifest_hash = 0;  // XXH3 of those bytes
};

// Updates the file without waiting for the disk: after a power failure it may be older than the log, and never newer. A
// log that comes back with less than the mark says has lost writes, whatever its own checksums say: a damaged length in
// the last pages of a write-ahead log looks like a write that a crash cut off, and so does a file that lost its end.
// The class is thread-safe.
class LogMark {
 public:
  // Opens the mark of the log in `log_folder`, or makes it, and locks it, across processes and within this one.
  // FAILED_PRECONDITION when the log is open already: `folder`, the collection's, and the process are named.
  static absl::StatusOr<std::unique_ptr<LogMark>> Open(const std::string& log_folder, const std::string& folder);
  ~LogMark();
  LogMark(const LogMark&) = delete;
  LogMark& operator=(const LogMark&) = delete;

  // Returns the sequence that was noted last, 0 when there is none that can be read.
  uint64_t sequence() const;
  // Returns zeros where nothing can be read, as in a mark of version 0.2.
  WrittenFiles files() const;

  // Note a sequence that is not before the one noted, and the files' lengths. Each is one system call, whose failure
  // costs a check and no write.
  void Note(uint64_t sequence);
  void NoteWal(uint64_t number, uint64_t num_bytes);
  void NoteWrite(uint64_t sequence, uint64_t wal_number, uint64_t wal_bytes);
  void NoteManifest(uint64_t number, uint64_t num_bytes, uint64_t hash);

  // FAILED_PRECONDITION unless the file is still where it was opened: a log whose folder was deleted or moved would
  // acknowledge writes that the next start does not find. It takes one system call.
  absl::Status CheckInPlace() const;

  // Brings it to the disk.
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

// What a mark says.
struct LogMarkContents {
  uint64_t sequence = 0;
  WrittenFiles files;
};

// Reads the mark of a log that may be open elsewhere; zeros for what cannot be read.
LogMarkContents ReadLogMark(const std::string& log_folder);

}  // namespace maxsim::collection
