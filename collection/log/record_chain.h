// Checks a write-ahead log of RocksDB without using RocksDB, which cannot tell a damaged end from one that a crash cut
// off. The format is described in
// https://github.com/facebook/rocksdb/wiki/Write-Ahead-Log-File-Format.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace maxsim::collection {

struct RecordChain {
  uint64_t num_bytes = 0;     // size of the file
  uint64_t intact_bytes = 0;  // end of the last record up to which all checksums are right
};

// Reads the records of a file from its beginning. Returns NOT_FOUND if there is no file.
absl::StatusOr<RecordChain> FollowRecords(const std::string& path);

}  // namespace maxsim::collection
