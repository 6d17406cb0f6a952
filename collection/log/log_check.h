// Reads and checks the database of a log without changing it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/log/collection_log.h"
#include "collection/log/log_database.h"
#include "collection/log/log_mark.h"
#include "collection/log/version_memory.h"

namespace maxsim::collection {

// The database inside of a log's folder.
inline constexpr std::string_view kLogDatabaseName = "records";

inline constexpr uint64_t kLogFormatVersion = 3;
// The version of a log that follows a stream. It has its own number, so that programs that do not know streams refuse
// it.
inline constexpr uint64_t kStreamedLogFormatVersion = 4;
// Earlier format versions, without and with a stream. They do not distinguish the versions of deleted ids from those of
// documents (CollectionLog::UpgradeVersions).
inline constexpr uint64_t kOldLogFormatVersion = 1;
inline constexpr uint64_t kOldStreamedLogFormatVersion = 2;

// Describes a log, as read from its own metadata.
struct LogContents {
  std::string format;  // the text from Describe
  uint64_t first_sequence = 0;
  uint64_t last_sequence = 0;
  uint64_t format_version = 0;
  bool has_versions = false;
  bool needs_upgrade = false;   // CollectionLog::UpgradeVersions
  bool has_old_format = false;  // the upgrade has not begun
  uint64_t deleted_bytes = 0;   // this and the next: see version_memory.h
  uint64_t remembered_bytes = kRememberedBytes;
  std::optional<LogStream> stream;
  TornTails torn_tails;  // for LogDatabase::Open
};

// Reads the metadata. Returns DATA_LOSS if some is missing or wrong, and FAILED_PRECONDITION if a later version of
// maxsimd wrote the log.
absl::StatusOr<LogContents> ReadContents(const LogDatabase& database);

// Makes the checks of CollectionLog::Open for the collection in `folder`, but changes nothing: the database must be
// readable and have everything that the mark records. Returns DATA_LOSS with the first sequence that cannot be read or
// the name of the damaged file, and FAILED_PRECONDITION for a log of a later format.
absl::StatusOr<LogContents> CheckLog(const std::string& folder, const LogMarkContents& mark);

// Opens a log's database for reading, without the ends of files that a power cut tore (FindTornTails), and stores these
// in `*tails` if it is not null. Checks the MANIFEST against the mark's `written`, but not the write-ahead logs.
absl::StatusOr<std::unique_ptr<LogDatabase>> OpenForReading(const std::string& database_path,
                                                            const WrittenFiles& written, TornTails* tails = nullptr);

// Opens the database like OpenForReading, and also checks the write-ahead logs against the mark.
absl::StatusOr<std::unique_ptr<LogDatabase>> OpenChecked(const std::string& database_path, const WrittenFiles& written,
                                                         TornTails* tails = nullptr);

// Stores the value of the record with this sequence in `value`. Returns DATA_LOSS, naming the sequence, if the record
// is missing or its checksum is wrong.
absl::Status GetRecord(const LogDatabase& database, uint64_t sequence, rocksdb::PinnableSlice* value);

// Calls `visit` for the records with sequences `after` + 1 .. `through`, in order. Ends with the first error.
absl::Status ReadRecords(const LogDatabase& database, const LogFormat& format, uint64_t after, uint64_t through,
                         const CollectionLog::Visitor& visit);

// Calls `visit` for all records after `after`, in order. Returns DATA_LOSS if record `after` + 1 was dropped.
absl::Status ReadRecordsBehind(const LogDatabase& database, const LogFormat& format, uint64_t after,
                               const CollectionLog::Visitor& visit);

}  // namespace maxsim::collection
