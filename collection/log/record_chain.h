// Checks the records of a RocksDB write-ahead log, or of a MANIFEST, which has the same format. RocksDB itself cannot
// distinguish a damaged end from an end that a crash cut off. The format is described in
// https://github.com/facebook/rocksdb/wiki/Write-Ahead-Log-File-Format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace maxsim::collection {

struct RecordChain {
  uint64_t num_bytes = 0;     // size of the file
  uint64_t intact_bytes = 0;  // end of the last record up to which all checksums are right
  uint64_t torn_at = 0;       // where the first damaged record begins; if there is none, the end of the records
};

// Reads the records of a file from its beginning to the first damaged one. Returns NOT_FOUND if there is no file.
absl::StatusOr<RecordChain> FollowRecords(const std::string& path);
RecordChain FollowRecords(std::string_view bytes);

// Returns whether an undamaged record begins anywhere after `at` (pass RecordChain::torn_at). If not, the damaged
// record was the last one, and a power cut may have torn it before it was synced. Takes at most about 0.1 us per byte.
bool HasRecordBehind(std::string_view bytes, size_t at);

}  // namespace maxsim::collection
