#include "collection/log/log_versions.h"

#include <memory>

#include "base/text.h"
#include "collection/log/log_check.h"
#include "collection/log/version_memory.h"

namespace maxsim::collection {
namespace {

constexpr size_t kVersionBytes = sizeof(uint64_t);

std::string NameOf(std::string_view key, IdType id_type) {
  return id_type == IdType::kString ? Quote(key) : Cat(static_cast<int64_t>(FromBigEndian(key)));
}

}  // namespace

std::string VersionKey(const LogRecord& record, IdType id_type) {
  return id_type == IdType::kInt64 ? BigEndian(static_cast<uint64_t>(record.int_id)) : std::string(record.string_id);
}

absl::StatusOr<LogRecord> RecordOfVersionKey(std::string_view key, IdType id_type) {
  LogRecord record;
  if (id_type == IdType::kString) {
    record.string_id = key;
    return record;
  }
  if (key.size() != kVersionBytes) {
    return absl::DataLossError(Cat("versions: an int64 id of ", key.size(), " bytes, expected ", kVersionBytes));
  }
  record.int_id = static_cast<int64_t>(FromBigEndian(key));
  return record;
}

std::string VersionValue(const StoredVersion& version) {
  std::string value = BigEndian(version.version);
  if (version.deleted_at.has_value()) value += BigEndian(*version.deleted_at);
  return value;
}

absl::StatusOr<StoredVersion> ParseVersion(std::string_view value) {
  if (value.size() == kVersionBytes) return StoredVersion{FromBigEndian(value), std::nullopt};
  if (value.size() == 2 * kVersionBytes) {
    return StoredVersion{FromBigEndian(value), FromBigEndian(value.substr(kVersionBytes))};
  }
  return absl::DataLossError(
      Cat("versions: ", value.size(), " bytes, expected ", kVersionBytes, " or ", 2 * kVersionBytes));
}

absl::StatusOr<std::optional<StoredVersion>> FindVersion(const LogDatabase& database, std::string_view key) {
  rocksdb::PinnableSlice value;
  const rocksdb::Status status =
      database.db().Get(rocksdb::ReadOptions(), database.family(LogFamily::kVersions), AsSlice(key), &value);
  if (status.IsNotFound()) return std::nullopt;
  if (!status.ok()) return FromRocksDb(status, "versions: ");
  return ParseVersion(AsView(value));
}

absl::StatusOr<uint64_t> ReadVersion(const LogDatabase& database, std::string_view key, uint64_t forgotten_below) {
  const absl::StatusOr<std::optional<StoredVersion>> stored = FindVersion(database, key);
  if (!stored.ok()) return stored.status();
  if (!stored->has_value()) return 0;
  const StoredVersion& version = **stored;
  return version.deleted_at.has_value() && *version.deleted_at < forgotten_below ? 0 : version.version;
}

bool VersionFilter::Filter(int /*level*/, const rocksdb::Slice& /*key*/, const rocksdb::Slice& value,
                           std::string* /*new_value*/, bool* /*value_changed*/) const {
  const absl::StatusOr<StoredVersion> version = ParseVersion(AsView(value));
  return version.ok() && version->deleted_at.has_value() && *version->deleted_at < forgotten_below_;
}

void VersionCheck::Add(const LogRecord& record) {
  if (record.kind == LogRecord::Kind::kSkipped) return;
  deleted_bytes_ += DeletedBytes(record, id_type_);
  last_[VersionKey(record, id_type_)] = {record.sequence, record.version, record.kind == LogRecord::Kind::kDelete,
                                         deleted_bytes_};
}

std::string VersionCheck::ProblemOf(const std::optional<StoredVersion>& stored, const Last& last,
                                    const LogContents& contents) const {
  // The count of deleted bytes at the id's last write is the log's count without the deletes that came later. It is 0
  // for a delete before an upgrade to this format, because the log's count does not include such a delete.
  const uint64_t deleted_since = deleted_bytes_ - last.deleted_bytes;
  const uint64_t deleted_at = contents.deleted_bytes > deleted_since ? contents.deleted_bytes - deleted_since : 0;
  if (!stored.has_value()) {
    const bool may_be_missing =
        last.version == 0 ||
        (last.is_delete &&
         (!all_readable_ || deleted_at < ForgottenBelow(contents.deleted_bytes, contents.remembered_bytes)));
    return may_be_missing
               ? ""
               : Cat("has no version, but the write with sequence ", last.sequence, " gave it ", last.version);
  }
  if (stored->version != last.version) {
    return Cat("has version ", stored->version, ", but the write with sequence ", last.sequence, " gave it ",
               last.version);
  }
  // Versions in a log of an earlier format have no deleted_at, which is treated as 0 here.
  if (!all_readable_ || stored->deleted_at.value_or(0) == (last.is_delete ? deleted_at : 0)) return "";
  return Cat("was deleted at ", stored->deleted_at.value_or(0), " deleted bytes, and by the write with sequence ",
             last.sequence, " at ", last.is_delete ? deleted_at : 0);
}

void VersionCheck::Run(const LogDatabase& database, const LogContents& contents,
                       const std::function<void(std::string)>& problem) const {
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> iterator(
      database.db().NewIterator(options, database.family(LogFamily::kVersions)));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const absl::StatusOr<StoredVersion> version = ParseVersion(AsView(iterator->value()));
    if (!version.ok()) {
      problem(Cat(ForStrCat(std::string(version.status().message()))));
    } else if (version->deleted_at.value_or(0) > contents.deleted_bytes) {
      problem(Cat("id ", NameOf(AsView(iterator->key()), id_type_), " was deleted at ", *version->deleted_at,
                  " deleted bytes, but the log counts ", contents.deleted_bytes));
    }
  }
  if (absl::Status status = FromRocksDb(iterator->status(), "versions: "); !status.ok()) {
    problem(std::string(status.message()));
    return;
  }
  for (const auto& [key, last] : last_) {
    const absl::StatusOr<std::optional<StoredVersion>> stored = FindVersion(database, key);
    if (!stored.ok()) {
      problem(std::string(stored.status().message()));
    } else if (const std::string text = ProblemOf(*stored, last, contents); !text.empty()) {
      problem(Cat("id ", NameOf(key, id_type_), " ", text));
    }
  }
}

}  // namespace maxsim::collection
