#include "collection/log/collection_log.h"

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "base/file.h"
#include "base/guard.h"
#include "base/text.h"
#include "collection/log/log_check.h"
#include "collection/log/log_database.h"
#include "collection/log/log_files.h"
#include "collection/log/log_mark.h"
#include "collection/log/log_reserve.h"
#include "collection/log/log_tombstones.h"
#include "collection/log/log_versions.h"

namespace maxsim::collection {
namespace {

constexpr std::string_view kReserveName = "reserve";

// Says that a write failed when it ends without Done: with an exception, too.
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

// Returns an error of a record that no format has, before anything of it is written.
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

struct CollectionLog::State {
  std::string folder;  // the collection's
  LogFormat format;
  std::unique_ptr<LogMark> mark;

  // Held alone while the database is closed and opened again, shared while it is used.
  mutable std::shared_mutex mutex;
  // Serialises writes, so that everything in the write-ahead log is on disk when its length is recorded.
  std::mutex write_mutex;
  std::optional<LogReserve> reserve;  // this and the next: under `write_mutex`, or with `mutex` held alone
  uint64_t unflushed_bytes = 0;       // upper limit of the bytes that only the write-ahead log holds
  // Read-only after a Recover that failed; null after one that could not even read.
  std::unique_ptr<LogDatabase> database;
  std::atomic<bool> failed{false};  // a write has, and none may follow
  std::atomic<bool> has_versions{false};
  std::atomic<uint64_t> first{0};
  std::atomic<uint64_t> last{0};
  std::optional<LogStream> stream;  // written while `mutex` is held alone

  absl::Status OpenDatabase();
  absl::StatusOr<const LogDatabase*> Database() const;
  absl::Status Write(rocksdb::WriteBatch& batch, std::optional<uint64_t> last_sequence = std::nullopt);
  absl::Status KeepRoomForStart(uint64_t num_bytes);
  absl::Status NoteWrite(std::optional<uint64_t> last_sequence);
  absl::Status AddRecord(const LogRecord& record, rocksdb::WriteBatch& batch, std::string& head) const;
  absl::StatusOr<uint64_t> VersionAt(std::string_view key) const;
  absl::Status Truncate(uint64_t through, int64_t generation);
  absl::Status ReclaimSpace() const;
  absl::Status Follow(const LogStream& named);
  std::string Where() const { return Cat("the log of ", folder, ": "); }
};

absl::Status CollectionLog::State::OpenDatabase() {
  // What cannot be read whole is left as it is: opening it for writing would drop what looks like a write cut off.
  if (absl::Status status = mark->CheckInPlace(); !status.ok()) return status;
  const absl::StatusOr<LogContents> contents = CheckLog(folder, {mark->sequence(), mark->files()});
  if (!contents.ok()) return contents.status();
  if (contents->format != Describe(format)) {
    return absl::FailedPreconditionError(
        Cat("the log of ", folder, " is one of ", contents->format, ", and the collection has ", Describe(format)));
  }
  const WrittenFiles before = mark->files();
  if (!reserve.has_value()) reserve.emplace(JoinPath(LogFolder(folder), kReserveName));
  reserve->Release();
  unflushed_bytes = 0;
  mark->NoteWal(0, 0);  // opening the database moves the write-ahead log's contents to files and deletes it
  absl::StatusOr<std::unique_ptr<LogDatabase>> opened =
      LogDatabase::Open(LogDatabasePath(folder), LogDatabase::Access::kWrite, mark.get(), contents->torn_tails);
  if (!opened.ok()) {
    mark->NoteWal(before.wal_number, before.wal_bytes);
    return Prefix(Where(), opened.status());
  }
  database = *std::move(opened);
  KeepRoomForStart(0).IgnoreError();  // if there is no room, the first write reports it
  first = contents->first_sequence;
  last = contents->last_sequence;
  stream = contents->stream;
  has_versions = contents->has_versions;
  failed = false;
  // What was recovered has been written to files of its own, on the disk, whether or not it was acknowledged.
  mark->Note(contents->last_sequence);
  return absl::OkStatus();
}

absl::StatusOr<const LogDatabase*> CollectionLog::State::Database() const {
  if (database == nullptr) return absl::UnavailableError(Cat(Where(), "could not be opened again after a failure"));
  return database.get();
}

// Records in the mark how far the log has come. Returns an error if the log's files are no longer there.
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

// Reserves the disk space that a start after this write needs to copy the write-ahead log to files.
absl::Status CollectionLog::State::KeepRoomForStart(uint64_t num_bytes) {
  constexpr uint64_t kMinReserveBytes = uint64_t{1} << 20;  // for files that every start creates
  unflushed_bytes += num_bytes;
  if (kMinReserveBytes + unflushed_bytes <= reserve->num_bytes()) return absl::OkStatus();
  uint64_t in_memory = 0;  // data that has been flushed since needs no reserve
  if (database->db().GetAggregatedIntProperty(rocksdb::DB::Properties::kCurSizeAllMemTables, &in_memory)) {
    unflushed_bytes = std::min(unflushed_bytes, in_memory + num_bytes);
  }
  return Prefix(Where(), reserve->Grow(kMinReserveBytes + unflushed_bytes));
}

absl::Status CollectionLog::State::Write(rocksdb::WriteBatch& batch, std::optional<uint64_t> last_sequence) {
  if (absl::StatusOr<const LogDatabase*> open = Database(); !open.ok()) return open.status();
  if (failed) return absl::UnavailableError(Cat(Where(), "a write failed, and it has not been recovered"));
  const std::lock_guard lock(write_mutex);
  if (absl::Status status = KeepRoomForStart(batch.GetDataSize()); !status.ok()) return status;
  FailedUnlessDone attempt(failed);
  const rocksdb::Status status = database->db().Write(Synced(), &batch);
  if (!status.ok()) return FromRocksDb(status, Where());
  if (absl::Status noted = NoteWrite(last_sequence); !noted.ok()) return noted;
  attempt.Done();
  return absl::OkStatus();
}

absl::Status CollectionLog::State::AddRecord(const LogRecord& record, rocksdb::WriteBatch& batch,
                                             std::string& head) const {
  head.clear();
  AppendRecordHead(record, format.id_type, &head);
  const std::string key = BigEndian(record.sequence);
  const rocksdb::Slice key_part(key);
  const std::array<rocksdb::Slice, 3> parts = {rocksdb::Slice(head), AsSlice(record.rows), AsSlice(record.payload)};
  const int num_parts = record.kind == LogRecord::Kind::kUpsert ? 3 : 1;
  rocksdb::Status status = batch.Put(database->family(LogFamily::kRecords), rocksdb::SliceParts(&key_part, 1),
                                     rocksdb::SliceParts(parts.data(), num_parts));
  if (record.kind == LogRecord::Kind::kSkipped) return FromRocksDb(status, Where());
  rocksdb::ColumnFamilyHandle* const versions = database->family(LogFamily::kVersions);
  if (status.ok() && record.version != 0) {
    status = batch.Put(versions, VersionKey(record, format.id_type), BigEndian(record.version));
  } else if (status.ok() && has_versions) {
    status = batch.Delete(versions, VersionKey(record, format.id_type));
  }
  return FromRocksDb(status, Cat(Where(), "sequence ", record.sequence, ": "));
}

absl::StatusOr<uint64_t> CollectionLog::State::VersionAt(std::string_view key) const {
  const std::shared_lock lock(mutex);
  absl::StatusOr<const LogDatabase*> open = Database();
  if (!open.ok()) return open.status();
  if (!has_versions) return 0;
  absl::StatusOr<uint64_t> version = ReadVersion(**open, key);
  return version.ok() ? version : Prefix(Where(), version.status());
}

absl::Status CollectionLog::State::Truncate(uint64_t through, int64_t generation) {
  if (through > last) return Invalid(Where(), "sequence ", through, " is truncated, and the last is ", last.load());
  rocksdb::WriteBatch batch;
  const bool drops = through > first;
  rocksdb::Status status;
  if (drops) {
    status = batch.DeleteRange(database->family(LogFamily::kRecords), BigEndian(0), BigEndian(through + 1));
    if (status.ok()) status = batch.Put(database->family(LogFamily::kMeta), AsSlice(kFirstKey), Cat(through));
  }
  if (!status.ok()) return FromRocksDb(status, Where());
  if (generation > 0) {
    if (absl::Status added = AddDropOfOthers(*database, generation, &batch); !added.ok()) {
      return Prefix(Where(), added);
    }
  }
  if (batch.Count() == 0) return absl::OkStatus();
  if (absl::Status written = Write(batch); !written.ok()) return written;
  if (drops) first = through;
  return absl::OkStatus();
}

absl::Status CollectionLog::State::Follow(const LogStream& named) {
  if (stream == named) return absl::OkStatus();
  if (stream.has_value()) {
    return absl::FailedPreconditionError(Cat(Where(), "follows ", Describe(*stream), ", not ", Describe(named)));
  }
  if (last > 0) {
    return absl::FailedPreconditionError(
        Cat(Where(), "has had writes up to sequence ", last.load(), ", which are not those of ", Describe(named)));
  }
  rocksdb::ColumnFamilyHandle* const meta = database->family(LogFamily::kMeta);
  rocksdb::WriteBatch batch;
  rocksdb::Status status = batch.Put(meta, AsSlice(kFormatVersionKey), Cat(kStreamedLogFormatVersion));
  if (status.ok()) status = batch.Put(meta, AsSlice(kStreamNameKey), named.name);
  if (status.ok()) status = batch.Put(meta, AsSlice(kStreamCreatedKey), Cat(named.created_ns));
  if (!status.ok()) return FromRocksDb(status, Where());
  if (absl::Status written = Write(batch); !written.ok()) return written;
  stream = named;
  return absl::OkStatus();
}

absl::Status CollectionLog::State::ReclaimSpace() const {
  rocksdb::DB& db = database->db();
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  for (size_t idx = 0; idx < kNumLogFamilies; ++idx) families.push_back(database->family(static_cast<LogFamily>(idx)));
  // The write-ahead log goes once every family has written what it has of it.
  rocksdb::Status status = db.Flush(rocksdb::FlushOptions(), families);
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  const std::string begin = BigEndian(0);
  const std::string end = BigEndian(first);
  const rocksdb::Slice begin_key(begin);
  const rocksdb::Slice end_key(end);
  // The files of keys are small, and blob files to which no key points go.
  if (status.ok()) status = db.CompactRange(options, database->family(LogFamily::kRecords), &begin_key, &end_key);
  // Files that the last step has made obsolete would stay until the next one: this looks for them.
  if (status.ok()) status = db.DisableFileDeletions();
  if (status.ok()) status = db.EnableFileDeletions(/*force=*/false);
  return FromRocksDb(status, Cat(Where(), "giving space back: "));
}

LogFormat LogFormat::Of(const Manifest& manifest) {
  return {manifest.id_type, manifest.storage, manifest.dim,
          manifest.storage == ScalarType::kI8 ? manifest.rotation_seed : 0};
}

CollectionLog::CollectionLog(std::unique_ptr<State> state) : state_(std::move(state)) {}

CollectionLog::~CollectionLog() {
  if (state_->mark != nullptr) state_->mark->Sync().IgnoreError();
  state_->database.reset();  // before the lock goes
}

absl::StatusOr<std::unique_ptr<CollectionLog>> CollectionLog::Open(const std::string& folder, const LogFormat& format,
                                                                   Mode mode, uint64_t begin) {
  return Guarded([&]() -> absl::StatusOr<std::unique_ptr<CollectionLog>> {
    if (!HasLog(folder)) {
      if (mode == Mode::kMustExist) return absl::NotFoundError(Cat(folder, ": has no log"));
      if (absl::Status status = CreateLog(folder, format, begin); !status.ok()) return status;
    }
    auto state = std::make_unique<State>();
    state->folder = folder;
    state->format = format;
    absl::StatusOr<std::unique_ptr<LogMark>> mark = LogMark::Open(LogFolder(folder), folder);
    if (!mark.ok()) return mark.status();
    state->mark = *std::move(mark);
    if (absl::Status status = state->OpenDatabase(); !status.ok()) return status;
    return std::unique_ptr<CollectionLog>(new CollectionLog(std::move(state)));
  });
}

const LogFormat& CollectionLog::format() const { return state_->format; }
uint64_t CollectionLog::last_sequence() const { return state_->last; }
uint64_t CollectionLog::first_sequence() const { return state_->first; }

std::optional<LogStream> CollectionLog::stream() const {
  const std::shared_lock lock(state_->mutex);
  return state_->stream;
}

absl::Status CollectionLog::Follow(const LogStream& stream) {
  return Guarded([&]() -> absl::Status {
    const std::unique_lock lock(state_->mutex);
    if (absl::StatusOr<const LogDatabase*> open = state_->Database(); !open.ok()) return open.status();
    return state_->Follow(stream);
  });
}

absl::Status CollectionLog::Append(absl::Span<const LogRecord> records) {
  if (records.empty()) return absl::OkStatus();
  return Guarded([&]() -> absl::Status {
    const std::shared_lock lock(state_->mutex);
    if (absl::StatusOr<const LogDatabase*> open = state_->Database(); !open.ok()) return open.status();
    constexpr size_t kBytesBeside = 64 + 1024;  // of a record: two keys with an id, the head, the batch's own
    size_t num_bytes = kBytesBeside;
    for (const LogRecord& record : records) num_bytes += record.rows.size() + record.payload.size() + kBytesBeside;
    rocksdb::WriteBatch batch(num_bytes);
    std::string head;
    uint64_t last = state_->last;
    bool has_versions = state_->has_versions;
    for (const LogRecord& record : records) {
      if (absl::Status status = CheckRecord(record, state_->format, last + 1); !status.ok()) {
        return Prefix(state_->Where(), status);
      }
      last = record.sequence;
      has_versions |= record.version != 0;
    }
    rocksdb::ColumnFamilyHandle* const meta = state_->database->family(LogFamily::kMeta);
    rocksdb::Status status = batch.Put(meta, AsSlice(kLastKey), Cat(last));
    if (status.ok() && has_versions && !state_->has_versions) status = batch.Put(meta, AsSlice(kHasVersionsKey), "");
    if (!status.ok()) return FromRocksDb(status, state_->Where());
    // A batch may give an id a version and take it away again.
    const bool had_versions = state_->has_versions.exchange(has_versions);
    absl::Status added;
    for (const LogRecord& record : records) {
      added = state_->AddRecord(record, batch, head);
      if (!added.ok()) break;
    }
    if (added.ok()) added = state_->Write(batch, last);
    if (!added.ok()) {
      state_->has_versions = had_versions;
      return added;
    }
    state_->last = last;
    return absl::OkStatus();
  });
}

absl::Status CollectionLog::Recover() {
  return Guarded([&]() -> absl::Status {
    const std::unique_lock lock(state_->mutex);
    state_->database.reset();
    absl::Status status = state_->OpenDatabase();
    if (status.ok()) return status;
    // Reads go on meanwhile where they can.
    state_->failed = true;
    absl::StatusOr<std::unique_ptr<LogDatabase>> reader =
        LogDatabase::Open(LogDatabasePath(state_->folder), LogDatabase::Access::kRead);
    if (reader.ok()) state_->database = *std::move(reader);
    return status;
  });
}

absl::Status CollectionLog::Read(uint64_t after, uint64_t through, const Visitor& visit) const {
  return Guarded([&]() -> absl::Status {
    const std::shared_lock lock(state_->mutex);
    absl::StatusOr<const LogDatabase*> open = state_->Database();
    if (!open.ok()) return open.status();
    through = std::min<uint64_t>(through, state_->last);
    if (after >= through) return absl::OkStatus();
    if (after < state_->first) {
      return absl::DataLossError(Cat(state_->Where(), "the write with sequence ", after + 1,
                                     " was dropped; it begins behind ", state_->first.load()));
    }
    absl::Status of_visitor;
    uint64_t next = after + 1;
    absl::Status status =
        ReadRecords(**open, state_->format, after, through, [&](const LogRecord& record) -> absl::Status {
          of_visitor = visit(record);
          next = record.sequence + 1;
          return of_visitor;
        });
    if (status.ok() || !of_visitor.ok()) return status;
    if (!absl::IsDataLoss(status)) return Prefix(state_->Where(), status);
    return Prefix(Cat("the log of ", state_->folder, " is damaged: from sequence ", next, " on nothing can be read: "),
                  status);
  });
}

absl::Status CollectionLog::ReadBehind(uint64_t after, const Visitor& visit) const {
  return Guarded([&]() -> absl::Status {
    const std::shared_lock lock(state_->mutex);
    absl::StatusOr<const LogDatabase*> open = state_->Database();
    if (!open.ok()) return open.status();
    if (!state_->has_versions) return absl::OkStatus();
    return Prefix(state_->Where(), ReadRecordsBehind(**open, state_->format, after, visit));
  });
}

absl::StatusOr<uint64_t> CollectionLog::VersionOf(std::string_view id) const {
  return Guarded([&] { return state_->VersionAt(id); });
}

absl::StatusOr<uint64_t> CollectionLog::VersionOf(int64_t id) const {
  return Guarded([&] { return state_->VersionAt(BigEndian(static_cast<uint64_t>(id))); });
}

absl::Status CollectionLog::PutTombstones(const Manifest& manifest, const Tombstones& tombstones) {
  return Guarded([&]() -> absl::Status {
    const std::shared_lock lock(state_->mutex);
    absl::StatusOr<const LogDatabase*> open = state_->Database();
    if (!open.ok()) return open.status();
    rocksdb::WriteBatch batch;
    if (absl::Status status = AddTombstones(**open, manifest, tombstones, &batch); !status.ok()) {
      return Prefix(state_->Where(), status);
    }
    return state_->Write(batch);
  });
}

absl::StatusOr<Tombstones> CollectionLog::TombstonesOf(const Manifest& manifest) const {
  return Guarded([&]() -> absl::StatusOr<Tombstones> {
    const std::shared_lock lock(state_->mutex);
    absl::StatusOr<const LogDatabase*> open = state_->Database();
    if (!open.ok()) return open.status();
    absl::StatusOr<Tombstones> tombstones = ReadTombstones(**open, manifest);
    return tombstones.ok() ? tombstones : Prefix(state_->Where(), tombstones.status());
  });
}

absl::Status CollectionLog::Truncate(uint64_t through, int64_t generation) {
  return Guarded([&]() -> absl::Status {
    const std::shared_lock lock(state_->mutex);
    if (absl::StatusOr<const LogDatabase*> open = state_->Database(); !open.ok()) return open.status();
    return state_->Truncate(through, generation);
  });
}

absl::Status CollectionLog::ReclaimSpace() {
  return Guarded([&]() -> absl::Status {
    const std::shared_lock lock(state_->mutex);
    if (absl::StatusOr<const LogDatabase*> open = state_->Database(); !open.ok()) return open.status();
    return state_->ReclaimSpace();
  });
}

uint64_t CollectionLog::num_bytes() const { return NumLogBytes(state_->folder); }

absl::StatusOr<uint64_t> CollectionLog::Checkpoint(const std::string& folder) const {
  return Guarded([&]() -> absl::StatusOr<uint64_t> {
    const std::shared_lock lock(state_->mutex);
    if (absl::StatusOr<const LogDatabase*> open = state_->Database(); !open.ok()) return open.status();
    absl::StatusOr<uint64_t> last = CopyLog(state_->database->db(), folder);
    return last.ok() ? last : Prefix(state_->Where(), last.status());
  });
}

}  // namespace maxsim::collection
