// Checks a write-ahead log of RocksDB's without RocksDB, which takes one with a damaged end for one that a crash cut
// off. The format is described in
// https://github.com/facebook/rocksdb/wiki/Write-Ahead-Log-File-Format.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace maxsim::collection {

struct RecordChain {
  uint64_t num_bytes = 0;     // of the file
  uint64_t intact_bytes = 0;  // up to the end of the last record before which all are whole, by their checksums
};

// Follows the records of a file from its beginning. NOT_FOUND for a missing file.
absl::StatusOr<RecordChain> FollowRecords(const std::string& path);

}  // namespace maxsim::collection
