// The versions of ids, as a log's database keeps them.
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

// Returns an id as it is a key of LogFamily::kVersions.
std::string VersionKey(const LogRecord& record, IdType id_type);

// Returns the version of an id, 0 where it has none.
absl::StatusOr<uint64_t> ReadVersion(const LogDatabase& database, std::string_view key);

// Checks that the versions in a log are those that its records gave to their ids. For one thread.
class VersionCheck {
 public:
  explicit VersionCheck(IdType id_type) : id_type_(id_type) {}
  // Takes the next record. Each id that a record names is kept in memory.
  void Add(const LogRecord& record);
  // Reads every version in the database, by their checksums, and calls `problem` for each id whose version is another
  // than its last record gave it.
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
