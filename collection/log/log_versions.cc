#include "collection/log/log_versions.h"

#include <memory>

#include "base/text.h"

namespace maxsim::collection {
namespace {

constexpr size_t kVersionBytes = sizeof(uint64_t);

absl::StatusOr<uint64_t> ParseVersion(std::string_view value) {
  if (value.size() == kVersionBytes) return FromBigEndian(value);
  return absl::DataLossError(Cat("versions: ", value.size(), " bytes, expected ", kVersionBytes));
}

std::string NameOf(std::string_view key, IdType id_type) {
  return id_type == IdType::kString ? Quote(key) : Cat(static_cast<int64_t>(FromBigEndian(key)));
}

}  // namespace

std::string VersionKey(const LogRecord& record, IdType id_type) {
  return id_type == IdType::kInt64 ? BigEndian(static_cast<uint64_t>(record.int_id)) : std::string(record.string_id);
}

absl::StatusOr<uint64_t> ReadVersion(const LogDatabase& database, std::string_view key) {
  rocksdb::PinnableSlice value;
  const rocksdb::Status status =
      database.db().Get(rocksdb::ReadOptions(), database.family(LogFamily::kVersions), AsSlice(key), &value);
  if (status.IsNotFound()) return 0;
  if (!status.ok()) return FromRocksDb(status, "versions: ");
  return ParseVersion(AsView(value));
}

void VersionCheck::Add(const LogRecord& record) {
  if (record.kind == LogRecord::Kind::kSkipped) return;
  last_[VersionKey(record, id_type_)] = {record.sequence, record.version};
}

void VersionCheck::Run(const LogDatabase& database, const std::function<void(std::string)>& problem) const {
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> iterator(
      database.db().NewIterator(options, database.family(LogFamily::kVersions)));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const absl::StatusOr<uint64_t> version = ParseVersion(AsView(iterator->value()));
    if (!version.ok()) problem(Cat(ForStrCat(std::string(version.status().message()))));
  }
  if (absl::Status status = FromRocksDb(iterator->status(), "versions: "); !status.ok()) {
    problem(std::string(status.message()));
    return;
  }
  for (const auto& [key, last] : last_) {
    const absl::StatusOr<uint64_t> version = ReadVersion(database, key);
    if (!version.ok()) {
      problem(std::string(version.status().message()));
    } else if (*version != last.version) {
      problem(Cat("id ", NameOf(key, id_type_), " has version ", *version, ", and the write with sequence ",
                  last.sequence, " gave it ", last.version));
    }
  }
}

}  // namespace maxsim::collection
