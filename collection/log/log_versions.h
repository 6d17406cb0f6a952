// Stores and reads the clients' versions of document ids in a log's database.
#pragma once

#include <rocksdb/compaction_filter.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/log/log_database.h"
#include "collection/log/log_record.h"
#include "collection/log/version_memory.h"
#include "collection/manifest.h"

namespace maxsim::collection {

struct LogContents;

// Returns the key of the record's id in LogFamily::kVersions.
std::string VersionKey(const LogRecord& record, IdType id_type);
// Returns a record that has only the id of a version key, as a view of `key`. Returns DATA_LOSS if `key` is not the key
// of an id.
absl::StatusOr<LogRecord> RecordOfVersionKey(std::string_view key, IdType id_type);

// Encode and decode a value of LogFamily::kVersions.
std::string VersionValue(const StoredVersion& version);
absl::StatusOr<StoredVersion> ParseVersion(std::string_view value);

// Returns the stored version of the id with this key, even if it counts as forgotten; nullopt if none is stored.
absl::StatusOr<std::optional<StoredVersion>> FindVersion(const LogDatabase& database, std::string_view key);

// Returns the version of the id with this key; 0 if it has none, or if it was deleted when the count of deleted bytes
// (version_memory.h) was below `forgotten_below`.
absl::StatusOr<uint64_t> ReadVersion(const LogDatabase& database, std::string_view key, uint64_t forgotten_below);

// Makes compactions of the database drop forgotten versions. Thread-safe.
class VersionFilter : public rocksdb::CompactionFilter {
 public:
  // Lets compactions drop versions whose deleted_at is below `forgotten_below`. It must be computed from deletes that
  // are on disk, because dropped versions cannot be restored.
  void set_forgotten_below(uint64_t forgotten_below) { forgotten_below_ = forgotten_below; }
  bool Filter(int level, const rocksdb::Slice& key, const rocksdb::Slice& value, std::string* new_value,
              bool* value_changed) const override;
  const char* Name() const override { return "maxsim.VersionFilter"; }

 private:
  std::atomic<uint64_t> forgotten_below_{0};
};

// Checks that the database stores the version of each id that the log's records gave it. Not thread-safe.
class VersionCheck {
 public:
  explicit VersionCheck(IdType id_type) : id_type_(id_type) {}
  // Adds the next record of the log. Keeps the ids of all records in memory.
  void Add(const LogRecord& record);
  // Call it instead of Add for a record that cannot be read. Run then does not compare counts of deleted bytes.
  void SkipUnreadable() { all_readable_ = false; }
  // Reads all versions in the database, which also checks their checksums, and calls `problem` for each id whose
  // version differs from that of its last record. `contents` must be of the same database.
  void Run(const LogDatabase& database, const LogContents& contents,
           const std::function<void(std::string)>& problem) const;

 private:
  struct Last {
    uint64_t sequence = 0;
    uint64_t version = 0;
    bool is_delete = false;
    uint64_t deleted_bytes = 0;  // of the records up to this one
  };
  // Describes what is wrong with the stored version of an id; "" if nothing is.
  std::string ProblemOf(const std::optional<StoredVersion>& stored, const Last& last,
                        const LogContents& contents) const;

  const IdType id_type_;
  std::unordered_map<std::string, Last> last_;  // by key
  uint64_t deleted_bytes_ = 0;                  // of all records
  bool all_readable_ = true;
};

}  // namespace maxsim::collection
