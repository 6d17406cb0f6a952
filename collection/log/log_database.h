// Opens the RocksDB database of a log and translates its errors.
#pragma once

#include <rocksdb/db.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/log/torn_tails.h"

namespace maxsim::collection {

class LogMark;
class VersionFilter;

// The column families of the database. Numbers in keys are big-endian, so that keys sort by number.
enum class LogFamily : size_t {
  kMeta,        // the keys below; values are decimal digits or text
  kRecords,     // sequence -> a value of log_record.h
  kVersions,    // id -> a value of log_versions.h
  kTombstones,  // generation, number of the shard -> log_sequence, the shard's checksum, ordinals
};
inline constexpr size_t kNumLogFamilies = 4;

// Keys of kMeta.
inline constexpr std::string_view kFormatVersionKey = "format_version";
inline constexpr std::string_view kFormatKey = "format";
inline constexpr std::string_view kFirstKey = "first_sequence";
inline constexpr std::string_view kLastKey = "last_sequence";
inline constexpr std::string_view kStreamNameKey = "stream_name";  // this and the next: if the log follows a stream
inline constexpr std::string_view kStreamCreatedKey = "stream_created_ns";
inline constexpr std::string_view kHasVersionsKey = "has_versions";          // present once a write had a version
inline constexpr std::string_view kDeletedBytesKey = "deleted_bytes";        // see version_memory.h
inline constexpr std::string_view kRememberedBytesKey = "remembered_bytes";  // see version_memory.h
inline constexpr std::string_view kOldVersionsKey = "has_old_versions";      // present while an upgrade is unfinished

// Converts a RocksDB status: DATA_LOSS for damaged or missing files, RESOURCE_EXHAUSTED for a full disk, quota, file
// size limit or memory limit, UNAVAILABLE for all other errors. The message begins with `prefix`.
absl::Status FromRocksDb(const rocksdb::Status& status, std::string_view prefix);

inline rocksdb::Slice AsSlice(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view AsView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

// Returns 8 bytes, the most significant first.
std::string BigEndian(uint64_t number);
uint64_t FromBigEndian(std::string_view bytes);  // `bytes` has at least 8 bytes

// Holds an open database. The class is thread-safe.
class LogDatabase {
 public:
  enum class Access {
    kCreate,            // creates the database if there is none
    kWrite,             // one process at a time
    kRead,              // changes no file; fails in the same cases as kWrite
    kReadUpToDamage,    // changes no file; skips all records after the first damage in the write-ahead log
    kReadAroundDamage,  // changes no file; skips only the damaged records in the write-ahead log
  };
  // Opens the database. Call CheckManifestFile first. Keeps the length of the MANIFEST in `mark` (may be null) up to
  // date; `mark` must outlive the database. Ignores the torn ends of files in `tails` (FindTornTails).
  static absl::StatusOr<std::unique_ptr<LogDatabase>> Open(const std::string& path, Access access,
                                                           LogMark* mark = nullptr, const TornTails& tails = {});
  ~LogDatabase();
  LogDatabase(const LogDatabase&) = delete;
  LogDatabase& operator=(const LogDatabase&) = delete;

  rocksdb::DB& db() const { return *db_; }
  rocksdb::ColumnFamilyHandle* family(LogFamily family) const { return families_[static_cast<size_t>(family)]; }

  // Makes later compactions of the database drop the versions of ids that were deleted when the count of deleted bytes
  // (version_memory.h) was below `deleted_bytes`.
  void ForgetVersionsBelow(uint64_t deleted_bytes);

  // Returns NOT_FOUND if the key does not exist.
  absl::StatusOr<std::string> GetMeta(std::string_view key) const;
  absl::StatusOr<uint64_t> GetMetaNumber(std::string_view key) const;

 private:
  LogDatabase();
  std::unique_ptr<VersionFilter> version_filter_;  // declared before db_, which uses it
  std::unique_ptr<rocksdb::Env> env_;              // null if RocksDB's own is used
  std::unique_ptr<rocksdb::DB> db_;
  std::array<rocksdb::ColumnFamilyHandle*, kNumLogFamilies> families_{};
};

}  // namespace maxsim::collection
