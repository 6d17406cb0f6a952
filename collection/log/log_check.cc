#include "collection/log/log_check.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "base/text.h"
#include "collection/log/database_files.h"
#include "collection/log/log_files.h"

namespace maxsim::collection {
namespace {

// Returns the sequence up to which RocksDB can read all records of a damaged log; nullopt if it cannot open the
// database.
std::optional<uint64_t> FindLastReadable(const std::string& path) {
  std::optional<uint64_t> best;
  for (const auto access : {LogDatabase::Access::kReadUpToDamage, LogDatabase::Access::kReadAroundDamage}) {
    absl::StatusOr<std::unique_ptr<LogDatabase>> database = LogDatabase::Open(path, access);
    if (!database.ok()) continue;
    const absl::StatusOr<uint64_t> first = (*database)->GetMetaNumber(kFirstKey);
    if (!first.ok()) continue;
    uint64_t last = *first;
    rocksdb::PinnableSlice value;
    while (GetRecord(**database, last + 1, &value).ok()) ++last;
    best = std::max(best.value_or(0), last);
  }
  return best;
}

std::string Known(uint64_t acknowledged) {
  return acknowledged > 0 ? Cat(" (at least ", acknowledged, " was acknowledged)") : std::string();
}

absl::Status DescribeDamage(const std::string& folder, uint64_t acknowledged, std::string_view reason) {
  const std::optional<uint64_t> last = FindLastReadable(LogDatabasePath(folder));
  const std::string what = last.has_value() ? Cat("from sequence ", *last + 1, " on nothing can be read")
                                            : std::string("none of its writes can be read");
  return absl::DataLossError(Cat("the log of ", folder, " is damaged: ", what, Known(acknowledged), ": ", reason));
}

absl::StatusOr<LogStream> ReadStream(const LogDatabase& database) {
  absl::StatusOr<std::string> name = database.GetMeta(kStreamNameKey);
  const absl::StatusOr<uint64_t> created_ns = database.GetMetaNumber(kStreamCreatedKey);
  for (const absl::Status& status : {name.status(), created_ns.status()}) {
    if (absl::IsNotFound(status)) return absl::DataLossError(status.message());
    if (!status.ok()) return status;
  }
  return LogStream{*std::move(name), *created_ns};
}

absl::StatusOr<bool> HasMeta(const LogDatabase& database, std::string_view key) {
  const absl::Status status = database.GetMeta(key).status();
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  return status.ok();
}

absl::Status ReadVersionMemory(const LogDatabase& database, LogContents& contents) {
  const absl::StatusOr<uint64_t> deleted = database.GetMetaNumber(kDeletedBytesKey);
  const absl::StatusOr<uint64_t> remembered = database.GetMetaNumber(kRememberedBytesKey);
  for (const absl::Status& status : {deleted.status(), remembered.status()}) {
    if (absl::IsNotFound(status)) return absl::DataLossError(status.message());
    if (!status.ok()) return status;
  }
  contents.deleted_bytes = *deleted;
  contents.remembered_bytes = *remembered;
  const absl::StatusOr<bool> old_versions = HasMeta(database, kOldVersionsKey);
  if (!old_versions.ok()) return old_versions.status();
  contents.needs_upgrade = *old_versions;
  return absl::OkStatus();
}

absl::StatusOr<LogContents> OpenAndRead(const std::string& folder, const WrittenFiles& written) {
  TornTails tails;
  absl::StatusOr<std::unique_ptr<LogDatabase>> database = OpenChecked(LogDatabasePath(folder), written, &tails);
  if (!database.ok()) return database.status();
  absl::StatusOr<LogContents> contents = ReadContents(**database);
  if (contents.ok()) contents->torn_tails = std::move(tails);
  return contents;
}

}  // namespace

std::string Describe(const LogFormat& format) {
  std::string text = Cat(Name(format.id_type), " ids, ", Name(format.storage), ", dimension ", format.dim);
  if (format.storage == ScalarType::kI8) text += Cat(", rotation seed ", format.rotation_seed);
  return text;
}

bool MayBeSame(const LogStream& a, const LogStream& b) {
  constexpr uint64_t kMaxDifferenceNs = 1'000'000'000;
  const auto [first, last] = std::minmax(a.created_ns, b.created_ns);
  return a.name == b.name && last - first <= kMaxDifferenceNs;
}

std::string Describe(const LogStream& stream) {
  const absl::Time created = absl::FromUnixNanos(static_cast<int64_t>(stream.created_ns));
  return Cat("stream ", stream.name, " of ", absl::FormatTime("%Y-%m-%dT%H:%M:%E*SZ", created, absl::UTCTimeZone()));
}

absl::StatusOr<LogContents> ReadContents(const LogDatabase& database) {
  LogContents contents;
  const absl::StatusOr<uint64_t> version = database.GetMetaNumber(kFormatVersionKey);
  absl::StatusOr<std::string> format = database.GetMeta(kFormatKey);
  const absl::StatusOr<uint64_t> first = database.GetMetaNumber(kFirstKey);
  const absl::StatusOr<uint64_t> last = database.GetMetaNumber(kLastKey);
  for (const absl::Status& status : {version.status(), format.status(), first.status(), last.status()}) {
    if (absl::IsNotFound(status)) return absl::DataLossError(status.message());
    if (!status.ok()) return status;
  }
  if (*version < kOldLogFormatVersion || *version > kStreamedLogFormatVersion) {
    const std::string message = Cat("format_version: ", *version, "; this version reads ", kOldLogFormatVersion, " to ",
                                    kStreamedLogFormatVersion);
    // A higher number means that a later version of maxsimd wrote the log, not that it is damaged.
    return *version < kOldLogFormatVersion ? absl::DataLossError(message) : absl::FailedPreconditionError(message);
  }
  if (*version == kOldStreamedLogFormatVersion || *version == kStreamedLogFormatVersion) {
    absl::StatusOr<LogStream> stream = ReadStream(database);
    if (!stream.ok()) return stream.status();
    contents.stream = *std::move(stream);
  }
  if (*first > *last) return absl::DataLossError(Cat("it begins after sequence ", *first, " and ends with ", *last));
  contents.format_version = *version;
  contents.format = *std::move(format);
  contents.first_sequence = *first;
  contents.last_sequence = *last;
  const absl::StatusOr<bool> has_versions = HasMeta(database, kHasVersionsKey);
  if (!has_versions.ok()) return has_versions.status();
  contents.has_versions = *has_versions;
  contents.has_old_format = *version < kLogFormatVersion;
  contents.needs_upgrade = contents.has_old_format;
  if (contents.has_old_format) return contents;
  if (absl::Status status = ReadVersionMemory(database, contents); !status.ok()) return status;
  return contents;
}

absl::StatusOr<std::unique_ptr<LogDatabase>> OpenForReading(const std::string& database_path,
                                                            const WrittenFiles& written, TornTails* tails) {
  if (absl::Status status = CheckManifestFile(database_path, written); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<LogDatabase>> database = LogDatabase::Open(database_path, LogDatabase::Access::kRead);
  if (absl::IsDataLoss(database.status())) {
    const absl::StatusOr<TornTails> torn = FindTornTails(database_path, written);
    if (!torn.ok() || torn->empty()) return database.status();
    database = LogDatabase::Open(database_path, LogDatabase::Access::kRead, nullptr, *torn);
    if (database.ok() && tails != nullptr) *tails = *torn;
  }
  return database;
}

absl::StatusOr<std::unique_ptr<LogDatabase>> OpenChecked(const std::string& database_path, const WrittenFiles& written,
                                                         TornTails* tails) {
  absl::StatusOr<std::unique_ptr<LogDatabase>> database = OpenForReading(database_path, written, tails);
  if (!database.ok()) return database.status();
  uint64_t min_needed = 0;
  if (!(*database)->db().GetIntProperty(rocksdb::DB::Properties::kMinLogNumberToKeep, &min_needed)) {
    return absl::InternalError("RocksDB does not say which write-ahead logs it needs");
  }
  if (absl::Status status = CheckWalFiles(database_path, written, min_needed); !status.ok()) return status;
  return database;
}

absl::StatusOr<LogContents> CheckLog(const std::string& folder, const LogMarkContents& mark) {
  const uint64_t acknowledged = mark.sequence;
  // Must not open the database if the MANIFEST has lost bytes: RocksDB may abort the process.
  if (absl::Status status = CheckManifestFile(LogDatabasePath(folder), mark.files); !status.ok()) {
    if (!absl::IsDataLoss(status)) return Prefix(Cat("the log of ", folder, ": "), status);
    return Prefix(Cat("the log of ", folder, " is damaged: none of its writes can be read", Known(acknowledged), ": "),
                  status);
  }
  absl::StatusOr<LogContents> contents = OpenAndRead(folder, mark.files);
  if (!contents.ok()) {
    const absl::Status& status = contents.status();
    if (absl::IsDataLoss(status) || absl::IsNotFound(status)) {
      return DescribeDamage(folder, acknowledged, std::string(status.message()));
    }
    return Prefix(Cat("the log of ", folder, ": "), status);
  }
  if (contents->last_sequence < acknowledged) {
    return DescribeDamage(folder, acknowledged, Cat("it ends with sequence ", contents->last_sequence));
  }
  return contents;
}

absl::Status GetRecord(const LogDatabase& database, uint64_t sequence, rocksdb::PinnableSlice* value) {
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = false;
  value->Reset();
  const rocksdb::Status status =
      database.db().Get(options, database.family(LogFamily::kRecords), BigEndian(sequence), value);
  if (status.ok()) return absl::OkStatus();
  const std::string where = Cat("the write with sequence ", sequence, ": ");
  if (status.IsNotFound()) return absl::DataLossError(Cat(where, "is missing"));
  return FromRocksDb(status, where);
}

absl::Status ReadRecords(const LogDatabase& database, const LogFormat& format, uint64_t after, uint64_t through,
                         const CollectionLog::Visitor& visit) {
  const int64_t row_bytes = format.dim * static_cast<int64_t>(SizeOf(format.storage));
  rocksdb::PinnableSlice value;
  for (uint64_t sequence = after + 1; sequence <= through; ++sequence) {
    if (absl::Status status = GetRecord(database, sequence, &value); !status.ok()) return status;
    absl::StatusOr<LogRecord> record = ParseRecordValue(sequence, AsView(value), format.id_type, row_bytes);
    if (!record.ok()) return record.status();
    if (absl::Status status = visit(*record); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ReadRecordsBehind(const LogDatabase& database, const LogFormat& format, uint64_t after,
                               const CollectionLog::Visitor& visit) {
  const int64_t row_bytes = format.dim * static_cast<int64_t>(SizeOf(format.storage));
  rocksdb::PinnableSlice value;
  for (uint64_t sequence = after + 1;; ++sequence) {
    value.Reset();
    const rocksdb::Status found =
        database.db().Get(rocksdb::ReadOptions(), database.family(LogFamily::kRecords), BigEndian(sequence), &value);
    if (found.IsNotFound()) break;
    if (!found.ok()) return FromRocksDb(found, Cat("sequence ", sequence, ": "));
    absl::StatusOr<LogRecord> record = ParseRecordValue(sequence, AsView(value), format.id_type, row_bytes);
    if (!record.ok()) return record.status();
    if (absl::Status status = visit(*record); !status.ok()) return status;
  }
  // Reading began at `after` + 1. If that record was dropped, the loop above found nothing, so checks the first
  // sequence in the metadata, which is updated together with the records.
  const absl::StatusOr<uint64_t> first = database.GetMetaNumber(kFirstKey);
  if (!first.ok()) return first.status();
  if (*first <= after) return absl::OkStatus();
  return absl::DataLossError(
      Cat("the write with sequence ", after + 1, " was dropped; the log begins after sequence ", *first));
}

}  // namespace maxsim::collection
