// Checks the records of a RocksDB write-ahead log, or of a MANIFEST, which has the same format. Does not use RocksDB,
// because RocksDB cannot tell a damaged end from one that a crash cut off. The format is described in
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
  // Whether an undamaged record follows the first damaged one. If not, the damaged record was the last one written, and
  // a power cut may have torn it before it was synced.
  bool goes_on = false;
};

// Reads the records of a file from its beginning. Returns NOT_FOUND if there is no file.
absl::StatusOr<RecordChain> FollowRecords(const std::string& path);
RecordChain FollowRecords(std::string_view bytes);

}  // namespace maxsim::collection
