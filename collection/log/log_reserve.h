// A file of unused bytes beside a log's database, which keeps room on the disk for the next start: opening the database
// writes what only the write-ahead log has to files of its own before it drops that.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace maxsim::collection {

// For one thread at a time.
class LogReserve {
 public:
  explicit LogReserve(std::string path) : path_(std::move(path)) {}
  // Leaves the file on the disk.
  ~LogReserve();
  LogReserve(const LogReserve&) = delete;
  LogReserve& operator=(const LogReserve&) = delete;

  // Has the file take at least so many bytes of the disk. RESOURCE_EXHAUSTED where the disk has no room. A file system
  // that cannot give bytes to a file keeps none.
  absl::Status Grow(uint64_t num_bytes);
  // Gives the bytes back.
  void Release();
  uint64_t num_bytes() const { return num_bytes_; }

 private:
  const std::string path_;
  int fd_ = -1;
  uint64_t num_bytes_ = 0;
  bool is_supported_ = true;
};

}  // namespace maxsim::collection
