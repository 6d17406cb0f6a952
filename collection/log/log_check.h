// Inspects the database of a log without changing it: its contents, and which part of them can be read.
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
// The version of a log that follows a stream. It differs from that of other logs, so that programs that do not know
// streams do not append to it.
inline constexpr uint64_t kStreamedLogFormatVersion = 4;
// Earlier formats, which do not distinguish the versions of deleted ids from those of documents
// (CollectionLog::UpgradeVersions).
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

// Returns DATA_LOSS if metadata is missing or wrong, and FAILED_PRECONDITION if a later version of maxsimd wrote the
// log.
absl::StatusOr<LogContents> ReadContents(const LogDatabase& database);

// Makes the same checks as opening the log of the collection in `folder`, but changes nothing: the database must be
// readable and hold everything that the mark records. Returns DATA_LOSS with the first sequence that cannot be read, or
// with the name of the file, and FAILED_PRECONDITION for a log of a later format.
absl::StatusOr<LogContents> CheckLog(const std::string& folder, const LogMarkContents& mark);

// Opens the database in a log's folder for reading, without the tails of files that a power cut has torn. Stores these
// in `*tails`, if it is not null. Checks the MANIFEST first, but not that the write-ahead logs hold what the mark says.
absl::StatusOr<std::unique_ptr<LogDatabase>> OpenForReading(const std::string& database_path,
                                                            const WrittenFiles& written, TornTails* tails = nullptr);

// Opens the database like the function above, and also checks the write-ahead logs.
absl::StatusOr<std::unique_ptr<LogDatabase>> OpenChecked(const std::string& database_path, const WrittenFiles& written,
                                                         TornTails* tails = nullptr);

// Stores the record with this sequence in `value`. Returns DATA_LOSS, naming the sequence, if the record is missing or
// damaged.
absl::Status GetRecord(const LogDatabase& database, uint64_t sequence, rocksdb::PinnableSlice* value);

// Calls `visit` for each record after `after`, up to and including `through`, in order.
absl::Status ReadRecords(const LogDatabase& database, const LogFormat& format, uint64_t after, uint64_t through,
                         const CollectionLog::Visitor& visit);

// Calls `visit` for each record after `after` in the database. Returns DATA_LOSS if the record `after` + 1 was dropped.
absl::Status ReadRecordsBehind(const LogDatabase& database, const LogFormat& format, uint64_t after,
                               const CollectionLog::Visitor& visit);

}  // namespace maxsim::collection
