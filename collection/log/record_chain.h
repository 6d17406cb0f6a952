// Checks a write-ahead log of RocksDB, or a MANIFEST, which has the same format, without using RocksDB, which cannot
// tell a damaged end from one that a crash cut off. The format is described in
// https://github.com/facebook/rocksdb/wiki/Write-Ahead-Log-File-Format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace maxsim::collection {

struct RecordChain {
  uint64_t num_bytes = 0;     // size of the file
  uint64_t intact_bytes = 0;  // end of the last record up to which all checksums are right
  // Whether an undamaged record begins behind the first one that is damaged. If none does, the damaged one is the last
  // that was written: a power cut does that to it, if it was not synced yet.
  bool goes_on = false;
};

// Reads the records of a file from its beginning. Returns NOT_FOUND if there is no file.
absl::StatusOr<RecordChain> FollowRecords(const std::string& path);
RecordChain FollowRecords(std::string_view bytes);

}  // namespace maxsim::collection
