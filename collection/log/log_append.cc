// The functions that write to a log.
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "base/guard.h"
#include "base/text.h"
#include "collection/log/collection_log_state.h"
#include "collection/log/log_files.h"
#include "collection/log/log_versions.h"
#include "collection/log/version_memory.h"

namespace maxsim::collection {
namespace {

// Sets `failed` at the end of its scope unless Done was called, for example after an error or an exception.
class FailedUnlessDone {
 public:
  explicit FailedUnlessDone(std::atomic<bool>& failed) : failed_(failed) {}
  ~FailedUnlessDone() {
    if (!done_) failed_ = true;
  }
  FailedUnlessDone(const FailedUnlessDone&) = delete;
  FailedUnlessDone& operator=(const FailedUnlessDone&) = delete;
  void Done() { done_ = true; }

 private:
  std::atomic<bool>& failed_;
  bool done_ = false;
};

// Checks a record before any of it is written.
absl::Status CheckRecord(const LogRecord& record, const LogFormat& format, uint64_t expected) {
  if (record.sequence != expected) {
    return Invalid("sequence ", record.sequence, " is appended, expected ", expected);
  }
  if (record.kind != LogRecord::Kind::kUpsert) return absl::OkStatus();
  const size_t wanted =
      static_cast<size_t>(record.num_tokens) * static_cast<size_t>(format.dim) * SizeOf(format.storage);
  if (record.num_tokens >= 1 && record.rows.size() == wanted) return absl::OkStatus();
  return Invalid("sequence ", record.sequence, ": ", record.rows.size(), " bytes of rows for ", record.num_tokens,
                 " tokens of dimension ", format.dim);
}

}  // namespace

// Records the new length of the write-ahead log, and the last sequence, in the mark. Returns an error if the log's
// files were deleted or moved.
absl::Status CollectionLog::State::NoteWrite(std::optional<uint64_t> last_sequence) {
  if (absl::Status status = mark->CheckInPlace(); !status.ok()) return status;
  std::unique_ptr<rocksdb::LogFile> wal;
  if (const rocksdb::Status status = database->db().GetCurrentWalFile(&wal); !status.ok()) {
    return FromRocksDb(status, Cat(Where(), "its write-ahead log was deleted or moved while it was open: "));
  }
  if (last_sequence.has_value()) {
    mark->NoteWrite(*last_sequence, wal->LogNumber(), wal->SizeFileBytes());
  } else {
    mark->NoteWal(wal->LogNumber(), wal->SizeFileBytes());
  }
  return absl::OkStatus();
}

// Reserves the disk space that the next start needs: it copies the write-ahead log, to which `num_bytes` are about to
// be added, to other files.
absl::Status CollectionLog::State::KeepRoomForStart(uint64_t num_bytes) {
  constexpr uint64_t kMinReserveBytes = uint64_t{1} << 20;  // for files that every start creates
  unflushed_bytes += num_bytes;
  if (kMinReserveBytes + unflushed_bytes <= reserve->num_bytes()) return absl::OkStatus();
  uint64_t in_memory = 0;  // what is not in files yet; data that has been flushed needs no reserve
  if (database->db().GetAggregatedIntProperty(rocksdb::DB::Properties::kCurSizeAllMemTables, &in_memory)) {
    unflushed_bytes = std::min(unflushed_bytes, in_memory + num_bytes);
  }
  return Prefix(Where(), reserve->Grow(kMinReserveBytes + unflushed_bytes));
}

absl::Status CollectionLog::State::Write(rocksdb::WriteBatch& batch, std::optional<uint64_t> last_sequence) {
  if (absl::StatusOr<const LogDatabase*> open = Database(); !open.ok()) return open.status();
  if (failed) return absl::UnavailableError(Cat(Where(), "a write failed, and the log has not recovered"));
  const std::lock_guard lock(write_mutex);
  if (absl::Status status = KeepRoomForStart(batch.GetDataSize()); !status.ok()) return status;
  FailedUnlessDone attempt(failed);
  const rocksdb::Status status = database->db().Write(Synced(), &batch);
  if (!status.ok()) return FromRocksDb(status, Where());
  if (absl::Status noted = NoteWrite(last_sequence); !noted.ok()) return noted;
  attempt.Done();
  return absl::OkStatus();
}

// Adds the record's change of its id's version to `batch`, and the record's DeletedBytes to `new_deleted_bytes`.
absl::Status CollectionLog::State::AddVersion(const LogRecord& record, rocksdb::WriteBatch& batch,
                                              uint64_t& new_deleted_bytes) const {
  rocksdb::ColumnFamilyHandle* const versions = database->family(LogFamily::kVersions);
  const std::string key = VersionKey(record, format.id_type);
  if (record.version == 0) return has_versions ? FromRocksDb(batch.Delete(versions, key), "") : absl::OkStatus();
  StoredVersion version{record.version, std::nullopt};
  if (record.kind == LogRecord::Kind::kDelete) {
    new_deleted_bytes += DeletedBytes(record, format.id_type);
    version.deleted_at = new_deleted_bytes;
  }
  return FromRocksDb(batch.Put(versions, key, VersionValue(version)), "");
}

absl::Status CollectionLog::State::AddRecord(const LogRecord& record, rocksdb::WriteBatch& batch, std::string& head,
                                             uint64_t& new_deleted_bytes) const {
  head.clear();
  AppendRecordHead(record, format.id_type, &head);
  const std::string key = BigEndian(record.sequence);
  const rocksdb::Slice key_part(key);
  const std::array<rocksdb::Slice, 3> parts = {rocksdb::Slice(head), AsSlice(record.rows), AsSlice(record.payload)};
  const int num_parts = record.kind == LogRecord::Kind::kUpsert ? 3 : 1;
  absl::Status status = FromRocksDb(batch.Put(database->family(LogFamily::kRecords), rocksdb::SliceParts(&key_part, 1),
                                              rocksdb::SliceParts(parts.data(), num_parts)),
                                    "");
  if (status.ok() && record.kind != LogRecord::Kind::kSkipped) status = AddVersion(record, batch, new_deleted_bytes);
  if (status.ok()) return status;
  return Prefix(Cat(Where(), "sequence ", record.sequence, ": "), status);
}

absl::Status CollectionLog::State::Append(absl::Span<const LogRecord> records) {
  if (absl::StatusOr<const LogDatabase*> open = Database(); !open.ok()) return open.status();
  if (needs_upgrade) {
    return absl::FailedPreconditionError(Cat(Where(), "has an earlier version, and was not upgraded"));
  }
  constexpr size_t kBytesBeside = 64 + 1024;  // per record besides rows and payload: two keys, head, batch
  size_t num_bytes = kBytesBeside;
  for (const LogRecord& record : records) num_bytes += record.rows.size() + record.payload.size() + kBytesBeside;
  rocksdb::WriteBatch batch(num_bytes);
  std::string head;
  uint64_t new_last = last;
  bool gets_versions = has_versions;
  for (const LogRecord& record : records) {
    if (absl::Status status = CheckRecord(record, format, new_last + 1); !status.ok()) return Prefix(Where(), status);
    new_last = record.sequence;
    gets_versions |= record.version != 0;
  }
  rocksdb::ColumnFamilyHandle* const meta = database->family(LogFamily::kMeta);
  rocksdb::Status put = batch.Put(meta, AsSlice(kLastKey), Cat(new_last));
  if (put.ok() && gets_versions && !has_versions) put = batch.Put(meta, AsSlice(kHasVersionsKey), "");
  if (!put.ok()) return FromRocksDb(put, Where());
  // Sets has_versions before AddRecord: a record may have to remove a version that an earlier record of this batch gave
  // to its id.
  const bool had_versions = has_versions.exchange(gets_versions);
  uint64_t new_deleted_bytes = deleted_bytes;
  absl::Status added;
  for (const LogRecord& record : records) {
    added = AddRecord(record, batch, head, new_deleted_bytes);
    if (!added.ok()) break;
  }
  if (added.ok() && new_deleted_bytes != deleted_bytes) {
    added = FromRocksDb(batch.Put(meta, AsSlice(kDeletedBytesKey), Cat(new_deleted_bytes)), Where());
  }
  if (added.ok()) added = Write(batch, new_last);
  if (!added.ok()) {
    has_versions = had_versions;
    return added;
  }
  last = new_last;
  NoteDeletedBytes(new_deleted_bytes);
  return absl::OkStatus();
}

absl::Status CollectionLog::Append(absl::Span<const LogRecord> records) {
  if (records.empty()) return absl::OkStatus();
  return Guarded([&]() -> absl::Status {
    const std::shared_lock lock(state_->mutex);
    return state_->Append(records);
  });
}

}  // namespace maxsim::collection
