// A file of unused bytes next to a log's database, which reserves disk space for the next start: RocksDB then writes
// the contents of the write-ahead log to new files before it deletes the write-ahead log.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace maxsim::collection {

// Not thread-safe.
class LogReserve {
 public:
  explicit LogReserve(std::string path) : path_(std::move(path)) {}
  // Does not delete the file.
  ~LogReserve();
  LogReserve(const LogReserve&) = delete;
  LogReserve& operator=(const LogReserve&) = delete;

  // Grows the file to at least `num_bytes` of disk space. Returns RESOURCE_EXHAUSTED if the disk is full. Returns OK
  // without reserving if the file system does not support that.
  absl::Status Grow(uint64_t num_bytes);
  // Frees the reserved space.
  void Release();
  uint64_t num_bytes() const { return num_bytes_; }

 private:
  const std::string path_;
  int fd_ = -1;
  uint64_t num_bytes_ = 0;
  bool is_supported_ = true;
};

}  // namespace maxsim::collection
