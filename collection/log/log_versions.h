// The versions of document ids in a log's database.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/log/log_database.h"
#include "collection/log/log_record.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// Returns the key of the record's id in LogFamily::kVersions.
std::string VersionKey(const LogRecord& record, IdType id_type);

// Returns the version of an id, or 0 if it has none.
absl::StatusOr<uint64_t> ReadVersion(const LogDatabase& database, std::string_view key);

// Checks that the log's database stores for each id the version that the log's records give it. Not thread-safe.
class VersionCheck {
 public:
  explicit VersionCheck(IdType id_type) : id_type_(id_type) {}
  // Adds the next record. Keeps every id that a record names in memory.
  void Add(const LogRecord& record);
  // Reads every version in the database, which checks its checksum, and calls `problem` for each id whose version
  // differs from that of its last record.
  void Run(const LogDatabase& database, const std::function<void(std::string)>& problem) const;

 private:
  struct Last {
    uint64_t sequence = 0;
    uint64_t version = 0;
  };
  const IdType id_type_;
  std::unordered_map<std::string, Last> last_;  // by key
};

}  // namespace maxsim::collection
