#include "collection/log/collection_log.h"

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>

#include "base/file.h"
#include "base/guard.h"
#include "base/text.h"
#include "collection/log/collection_log_state.h"
#include "collection/log/log_check.h"
#include "collection/log/log_database.h"
#include "collection/log/log_files.h"
#include "collection/log/log_tombstones.h"

namespace maxsim::collection {
namespace {

constexpr std::string_view kReserveName = "reserve";

absl::Status CheckMayBeLive(const std::string& folder, const LogFormat& format) {
  if (!IsResidual(format.storage)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      Cat(folder, ": is stored as ", Name(format.storage), ", but a live collection stores f16, bf16, f32 or i8"));
}

}  // namespace

absl::Status CollectionLog::State::OpenDatabase() {
  // Checks the log before opening it for writing, because RocksDB would silently drop a damaged end of it.
  if (absl::Status status = mark->CheckInPlace(); !status.ok()) return status;
  const absl::StatusOr<LogContents> contents = CheckLog(folder, {mark->sequence(), mark->files()});
  if (!contents.ok()) return contents.status();
  if (contents->format != Describe(format)) {
    return absl::FailedPreconditionError(
        Cat("the log of ", folder, " is one of ", contents->format, ", but the collection has ", Describe(format)));
  }
  const WrittenFiles before = mark->files();
  if (!reserve.has_value()) reserve.emplace(JoinPath(LogFolder(folder), kReserveName));
  reserve->Release();
  unflushed_bytes = 0;
  mark->NoteWal(0, 0);  // opening the database deletes the write-ahead log, so forgets its length
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
  needs_upgrade = contents->needs_upgrade;
  has_old_format = contents->has_old_format;
  remembered_bytes = contents->remembered_bytes;
  NoteDeletedBytes(contents->deleted_bytes);
  failed = false;
  // Opening has written all recovered records to files, including records that were never acknowledged, so the mark can
  // include them.
  mark->Note(contents->last_sequence);
  return absl::OkStatus();
}

absl::StatusOr<const LogDatabase*> CollectionLog::State::Database() const {
  if (database == nullptr) return absl::UnavailableError(Cat(Where(), "could not be opened again after a failure"));
  return database.get();
}

absl::Status CollectionLog::State::Truncate(uint64_t through, int64_t generation) {
  if (through > last)
    return Invalid(Where(), "sequence ", through, " cannot be truncated; the last one is ", last.load());
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
  // Keeps the old format's number only if no upgrade has begun. A log with an unfinished upgrade must keep the new
  // number, so that earlier programs refuse it.
  const uint64_t version = has_old_format ? kOldStreamedLogFormatVersion : kStreamedLogFormatVersion;
  rocksdb::Status status = batch.Put(meta, AsSlice(kFormatVersionKey), Cat(version));
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
  // Flushes all column families, because RocksDB deletes a write-ahead log only when all its data is in other files.
  absl::Status status = FromRocksDb(db.Flush(rocksdb::FlushOptions(), families), "");
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  const std::string begin = BigEndian(0);
  const std::string end = BigEndian(first);
  const rocksdb::Slice begin_key(begin);
  const rocksdb::Slice end_key(end);
  // Runs every step, even if an earlier one failed. Compacting the records only rewrites small files of keys, and
  // deletes blob files that no key uses. DropForgottenVersions rewrites all versions that are kept.
  status.Update(
      FromRocksDb(db.CompactRange(options, database->family(LogFamily::kRecords), &begin_key, &end_key), "records: "));
  status.Update(DropForgottenVersions());
  // Makes RocksDB delete obsolete files now. Otherwise they would stay until the next call.
  status.Update(FromRocksDb(db.DisableFileDeletions(), ""));
  status.Update(FromRocksDb(db.EnableFileDeletions(/*force=*/false), ""));
  return Prefix(Cat(Where(), "giving space back: "), status);
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
                                                                   Mode mode, uint64_t begin,
                                                                   uint64_t remembered_bytes) {
  if (absl::Status status = CheckMayBeLive(folder, format); !status.ok()) return status;
  return Guarded([&]() -> absl::StatusOr<std::unique_ptr<CollectionLog>> {
    if (!HasLog(folder)) {
      if (mode == Mode::kMustExist) return absl::NotFoundError(Cat(folder, ": has no log"));
      const NewLog log{.begin = begin, .remembered_bytes = remembered_bytes};
      if (absl::Status status = CreateLog(folder, format, log, nullptr); !status.ok()) return status;
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

absl::Status CollectionLog::Create(const std::string& folder, const LogFormat& format, const NewLog& log,
                                   const std::function<absl::Status(const VersionVisitor& add)>& add_versions) {
  if (absl::Status status = CheckMayBeLive(folder, format); !status.ok()) return status;
  if (HasLog(folder)) return absl::FailedPreconditionError(Cat(folder, ": has a log already"));
  return Guarded([&] { return CreateLog(folder, format, log, add_versions); });
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

absl::Status CollectionLog::Recover() {
  return Guarded([&]() -> absl::Status {
    const std::unique_lock lock(state_->mutex);
    state_->database.reset();
    absl::Status status = state_->OpenDatabase();
    if (status.ok()) return status;
    // The log cannot be written to any more. Tries to open it for reading, so that reads still work.
    state_->failed = true;
    absl::StatusOr<std::unique_ptr<LogDatabase>> reader =
        OpenForReading(LogDatabasePath(state_->folder), state_->mark->files());
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
                                     " was dropped; the log begins after sequence ", state_->first.load()));
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
