// The functions of CollectionLog that look up and forget versions of ids, and that upgrade logs of earlier formats.
#include <rocksdb/write_batch.h>

#include <memory>
#include <optional>
#include <shared_mutex>

#include "base/guard.h"
#include "base/stop.h"
#include "base/text.h"
#include "collection/log/collection_log_state.h"
#include "collection/log/log_check.h"
#include "collection/log/log_versions.h"
#include "collection/log/version_memory.h"

namespace maxsim::collection {
namespace {

// UpgradeVersions writes the versions that it changes in batches of about this size.
constexpr size_t kMaxBatchBytes = size_t{4} << 20;

// Forgotten versions are dropped once they may take 1 / kDroppedShare of the remembered bytes. Not more often, because
// dropping them rewrites all other versions.
constexpr uint64_t kDroppedShare = 8;

}  // namespace

// Stores the count of deleted bytes after writes that are on disk. Compactions of the database may then drop the
// versions that this count makes forgotten.
void CollectionLog::State::NoteDeletedBytes(uint64_t now) {
  deleted_bytes = now;
  database->ForgetVersionsBelow(ForgottenBelow(now, remembered_bytes));
}

absl::StatusOr<uint64_t> CollectionLog::State::VersionAt(std::string_view key, uint64_t pending_bytes) const {
  const std::shared_lock lock(mutex);
  absl::StatusOr<const LogDatabase*> open = Database();
  if (!open.ok()) return open.status();
  if (!has_versions) return 0;
  absl::StatusOr<uint64_t> version =
      ReadVersion(**open, key, ForgottenBelow(deleted_bytes + pending_bytes, remembered_bytes));
  return version.ok() ? version : Prefix(Where(), version.status());
}

absl::Status CollectionLog::State::ReadVersions(const VersionVisitor& visit) const {
  if (!has_versions) return absl::OkStatus();
  if (needs_upgrade) {
    return absl::FailedPreconditionError(
        Cat(Where(), "has an earlier version, and was not upgraded; run maxsim-shard upgrade"));
  }
  const uint64_t forgotten_below = ForgottenBelow(deleted_bytes, remembered_bytes);
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> iterator(
      database->db().NewIterator(options, database->family(LogFamily::kVersions)));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    const absl::StatusOr<StoredVersion> version = ParseVersion(AsView(iterator->value()));
    if (!version.ok()) return Prefix(Where(), version.status());
    if (version->deleted_at.has_value() && *version->deleted_at < forgotten_below) continue;
    const absl::StatusOr<LogRecord> record = RecordOfVersionKey(AsView(iterator->key()), format.id_type);
    if (!record.ok()) return Prefix(Where(), record.status());
    if (absl::Status status = visit({record->string_id, record->int_id, *version}); !status.ok()) return status;
  }
  return FromRocksDb(iterator->status(), Cat(Where(), "versions: "));
}

absl::Status CollectionLog::State::DropForgottenVersions() const {
  const uint64_t below = ForgottenBelow(deleted_bytes, remembered_bytes);
  if (below <= compacted_below + remembered_bytes / kDroppedShare) return absl::OkStatus();
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  const rocksdb::Status status =
      database->db().CompactRange(options, database->family(LogFamily::kVersions), nullptr, nullptr);
  if (status.ok()) compacted_below = below;
  return FromRocksDb(status, "versions: ");
}

// Versions in old logs do not say whether they belong to a delete or a document. For each id without a document, marks
// the version as that of the oldest delete (deleted_at 0), so that it is forgotten first.
absl::Status CollectionLog::State::MarkOldVersions(const std::function<bool(const LogRecord&)>& holds,
                                                   const StopSignal* stop) {
  rocksdb::ColumnFamilyHandle* const versions = database->family(LogFamily::kVersions);
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> iterator(database->db().NewIterator(options, versions));
  rocksdb::WriteBatch batch;
  int64_t num_read = 0;
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    if (num_read++ % kStopBlockDocuments == 0 && Stopped(stop)) return StopStatus(stop);
    absl::StatusOr<StoredVersion> version = ParseVersion(AsView(iterator->value()));
    if (!version.ok()) return version.status();
    const absl::StatusOr<LogRecord> record = RecordOfVersionKey(AsView(iterator->key()), format.id_type);
    if (!record.ok()) return record.status();
    if (version->deleted_at.has_value() || holds(*record)) continue;
    version->deleted_at = 0;
    const rocksdb::Status put = batch.Put(versions, iterator->key(), VersionValue(*version));
    if (!put.ok()) return FromRocksDb(put, "");
    if (batch.GetDataSize() < kMaxBatchBytes) continue;
    if (absl::Status written = Write(batch); !written.ok()) return written;
    batch.Clear();
  }
  if (!iterator->status().ok()) return FromRocksDb(iterator->status(), "versions: ");
  return batch.Count() == 0 ? absl::OkStatus() : Write(batch);
}

absl::Status CollectionLog::State::UpgradeVersions(const std::function<bool(const LogRecord&)>& holds,
                                                   const StopSignal* stop) {
  if (!needs_upgrade) return absl::OkStatus();
  rocksdb::ColumnFamilyHandle* const meta = database->family(LogFamily::kMeta);
  // Writes the new format's number first, because earlier programs cannot read marked versions. So they refuse the log
  // even if the upgrade is interrupted.
  rocksdb::WriteBatch begin;
  const uint64_t version = stream.has_value() ? kStreamedLogFormatVersion : kLogFormatVersion;
  rocksdb::Status status = begin.Put(meta, AsSlice(kFormatVersionKey), Cat(version));
  if (status.ok()) status = begin.Put(meta, AsSlice(kOldVersionsKey), "");
  if (status.ok()) status = begin.Put(meta, AsSlice(kDeletedBytesKey), Cat(deleted_bytes.load()));
  if (status.ok()) status = begin.Put(meta, AsSlice(kRememberedBytesKey), Cat(remembered_bytes));
  if (!status.ok()) return FromRocksDb(status, Where());
  if (absl::Status written = Write(begin); !written.ok()) return written;
  has_old_format = false;
  if (absl::Status marked = has_versions ? MarkOldVersions(holds, stop) : absl::OkStatus(); !marked.ok()) {
    return Prefix(Where(), marked);
  }
  rocksdb::WriteBatch end;
  status = end.Delete(meta, AsSlice(kOldVersionsKey));
  if (!status.ok()) return FromRocksDb(status, Where());
  if (absl::Status written = Write(end); !written.ok()) return written;
  needs_upgrade = false;
  return absl::OkStatus();
}

absl::Status CollectionLog::UpgradeVersions(const std::function<bool(const LogRecord&)>& holds,
                                            const StopSignal* stop) {
  return Guarded([&]() -> absl::Status {
    const std::shared_lock lock(state_->mutex);
    if (absl::StatusOr<const LogDatabase*> open = state_->Database(); !open.ok()) return open.status();
    return state_->UpgradeVersions(holds, stop);
  });
}

absl::StatusOr<uint64_t> CollectionLog::VersionOf(std::string_view id, uint64_t pending_bytes) const {
  return Guarded([&] { return state_->VersionAt(id, pending_bytes); });
}

absl::StatusOr<uint64_t> CollectionLog::VersionOf(int64_t id, uint64_t pending_bytes) const {
  return Guarded([&] { return state_->VersionAt(BigEndian(static_cast<uint64_t>(id)), pending_bytes); });
}

absl::Status CollectionLog::ReadVersions(const VersionVisitor& visit) const {
  return Guarded([&]() -> absl::Status {
    const std::shared_lock lock(state_->mutex);
    if (absl::StatusOr<const LogDatabase*> open = state_->Database(); !open.ok()) return open.status();
    return state_->ReadVersions(visit);
  });
}

uint64_t CollectionLog::remembered_bytes() const {
  const std::shared_lock lock(state_->mutex);
  return state_->remembered_bytes;
}

uint64_t CollectionLog::deleted_bytes() const { return state_->deleted_bytes; }

}  // namespace maxsim::collection
