// The file beside a log's database that says who has the log open and which write was acknowledged last.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace maxsim::collection {

// Notes the last acknowledged sequence without waiting for the disk: it may stand behind what the log has, and never
// before it. A log that comes back with less than the mark says has lost writes, whatever its own checksums say (a
// damaged length in the last pages of a write-ahead log looks like a write that a crash cut off).
class LogMark {
 public:
  // Opens the mark of the log in `log_folder`, or makes it, and locks it, across processes and within this one.
  // FAILED_PRECONDITION when somebody has it open: `folder`, the collection's, and the process are named.
  static absl::StatusOr<std::unique_ptr<LogMark>> Open(const std::string& log_folder, const std::string& folder);
  ~LogMark();
  LogMark(const LogMark&) = delete;
  LogMark& operator=(const LogMark&) = delete;

  // Returns the sequence that was noted last, 0 when there is none that can be read.
  uint64_t sequence() const { return sequence_; }

  // Notes a sequence that is not before the one noted. It is one system call, whose failure costs a check and no write.
  void Note(uint64_t sequence);

  // Brings it to the disk.
  absl::Status Sync();

 private:
  LogMark(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  const int fd_;
  uint64_t sequence_ = 0;
};

// Returns the sequence in the mark of a log that may be open elsewhere, 0 when there is none that can be read.
uint64_t ReadLogMark(const std::string& log_folder);

}  // namespace maxsim::collection
