#include "collection/log/log_files.h"

#include <rocksdb/utilities/checkpoint.h>
#include <rocksdb/write_batch.h>

#include <filesystem>
#include <memory>
#include <system_error>

#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"
#include "collection/log/database_files.h"
#include "collection/log/log_check.h"
#include "collection/log/log_database.h"
#include "collection/log/log_mark.h"
#include "collection/log/log_versions.h"
#include "collection/log/version_memory.h"

namespace maxsim::collection {
namespace {

// A log is made or copied under this name, and then renamed.
constexpr std::string_view kUnfinishedName = "log.tmp";

// Makes an empty folder in which a log can be made.
absl::Status BeginLog(const std::string& folder) {
  const std::string unfinished = JoinPath(folder, kUnfinishedName);
  std::error_code error;
  std::filesystem::remove_all(unfinished, error);
  if (error) return ErrnoStatus(error.value(), "cannot remove", unfinished);
  std::filesystem::create_directory(unfinished, error);
  return error ? ErrnoStatus(error.value(), "cannot create folder", unfinished) : absl::OkStatus();
}

// Gives the finished log its name.
absl::Status FinishLog(const std::string& folder) {
  const std::string unfinished = JoinPath(folder, kUnfinishedName);
  if (absl::Status status = SyncFolder(unfinished); !status.ok()) return status;
  std::error_code error;
  std::filesystem::rename(unfinished, LogFolder(folder), error);
  if (error) return ErrnoStatus(error.value(), "cannot rename", unfinished);
  return SyncFolder(folder);
}

absl::Status WriteFirstMeta(const LogDatabase& database, const LogFormat& format, const NewLog& log,
                            bool has_versions) {
  rocksdb::WriteBatch batch;
  const auto put = [&](std::string_view key, const std::string& value) {
    return batch.Put(database.family(LogFamily::kMeta), AsSlice(key), value);
  };
  rocksdb::Status status =
      put(kFormatVersionKey, Cat(log.stream.has_value() ? kStreamedLogFormatVersion : kLogFormatVersion));
  if (status.ok()) status = put(kFormatKey, Describe(format));
  if (status.ok()) status = put(kFirstKey, Cat(log.begin));
  if (status.ok()) status = put(kLastKey, Cat(log.begin));
  if (status.ok()) status = put(kDeletedBytesKey, Cat(log.deleted_bytes));
  if (status.ok()) status = put(kRememberedBytesKey, Cat(log.remembered_bytes));
  if (status.ok() && has_versions) status = put(kHasVersionsKey, "");
  if (status.ok() && log.stream.has_value()) status = put(kStreamNameKey, log.stream->name);
  if (status.ok() && log.stream.has_value()) status = put(kStreamCreatedKey, Cat(log.stream->created_ns));
  if (status.ok()) status = database.db().Write(Synced(), &batch);
  return FromRocksDb(status, "");
}

// Writes versions of ids to a new database, in batches.
class VersionWriter {
 public:
  VersionWriter(const LogDatabase& database, IdType id_type) : database_(database), id_type_(id_type) {}

  bool has_versions() const { return has_versions_; }

  absl::Status Add(const IdVersion& id) {
    constexpr size_t kVersionBatchBytes = size_t{4} << 20;
    LogRecord record;
    record.string_id = id.string_id;
    record.int_id = id.int_id;
    has_versions_ = true;
    const rocksdb::Status put =
        batch_.Put(database_.family(LogFamily::kVersions), VersionKey(record, id_type_), VersionValue(id.version));
    if (!put.ok()) return FromRocksDb(put, "");
    return batch_.GetDataSize() < kVersionBatchBytes ? absl::OkStatus() : Flush();
  }
  absl::Status Flush() {
    const rocksdb::Status written = database_.db().Write(Synced(), &batch_);
    batch_.Clear();
    return FromRocksDb(written, "");
  }

 private:
  const LogDatabase& database_;
  const IdType id_type_;
  rocksdb::WriteBatch batch_;
  bool has_versions_ = false;
};

// Writes the contents of a new log.
absl::Status FillLog(const LogDatabase& database, const LogFormat& format, const NewLog& log,
                     const std::function<absl::Status(const VersionVisitor& add)>& add_versions) {
  VersionWriter versions(database, format.id_type);
  if (add_versions != nullptr) {
    absl::Status status = add_versions([&](const IdVersion& id) { return versions.Add(id); });
    if (status.ok() && versions.has_versions()) status = versions.Flush();
    if (!status.ok()) return status;
  }
  return WriteFirstMeta(database, format, log, versions.has_versions());
}

}  // namespace

std::string LogFolder(const std::string& folder) { return JoinPath(folder, kLogFolderName); }

std::string LogDatabasePath(const std::string& folder) { return JoinPath(LogFolder(folder), kLogDatabaseName); }

bool HasLog(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(LogFolder(path), ignored);
}

absl::Status CheckLogIsThere(const std::string& folder, const Manifest& manifest) {
  if (!manifest.log_sequence.has_value() || HasLog(folder)) return absl::OkStatus();
  const uint64_t held = *manifest.log_sequence;
  if (held > 0) {
    return absl::FailedPreconditionError(Cat(folder, ": holds the writes of a log up to sequence ", held,
                                             ", but the folder ", kLogFolderName, " is missing: restore a snapshot"));
  }
  return absl::FailedPreconditionError(
      Cat(folder, ": is a live collection that was never compacted, and the folder ", kLogFolderName,
          " is missing, which has all of its writes: bring it back (is its volume mounted?), or restore a snapshot"));
}

uint64_t NumLogBytes(const std::string& folder) {
  uint64_t sum = 0;
  std::error_code error;
  std::filesystem::directory_iterator entries(LogDatabasePath(folder), error);
  for (const std::filesystem::directory_iterator end; !error && entries != end; entries.increment(error)) {
    std::error_code gone;  // a file that was dropped meanwhile
    const uint64_t size = entries->file_size(gone);
    if (!gone) sum += size;
  }
  return sum;
}

absl::Status CreateLog(const std::string& folder, const LogFormat& format, const NewLog& log,
                       const std::function<absl::Status(const VersionVisitor& add)>& add_versions) {
  if (absl::Status status = BeginLog(folder); !status.ok()) return status;
  const std::string unfinished = JoinPath(folder, kUnfinishedName);
  {
    absl::StatusOr<std::unique_ptr<LogMark>> mark = LogMark::Open(unfinished, folder);
    if (!mark.ok()) return mark.status();
    const std::string prefix = Cat("cannot make the log of ", folder, ": ");
    const std::string path = JoinPath(unfinished, kLogDatabaseName);
    {
      absl::StatusOr<std::unique_ptr<LogDatabase>> database =
          LogDatabase::Open(path, LogDatabase::Access::kCreate, mark->get());
      if (!database.ok()) return Prefix(prefix, database.status());
      if (absl::Status status = FillLog(**database, format, log, add_versions); !status.ok()) {
        return Prefix(prefix, status);
      }
    }
    (*mark)->Note(log.begin);
    if (absl::Status status = NoteClosedDatabase(path, **mark); !status.ok()) return Prefix(prefix, status);
    if (absl::Status status = (*mark)->Sync(); !status.ok()) return status;
  }
  return FinishLog(folder);
}

absl::StatusOr<uint64_t> CopyLog(rocksdb::DB& db, const std::string& folder) {
  if (HasLog(folder)) return absl::FailedPreconditionError(Cat(folder, ": has a log already"));
  if (absl::Status status = CreateFolders(folder); !status.ok()) return status;
  if (absl::Status status = BeginLog(folder); !status.ok()) return status;
  const std::string unfinished = JoinPath(folder, kUnfinishedName);
  const std::string path = JoinPath(unfinished, kLogDatabaseName);
  rocksdb::Checkpoint* made = nullptr;
  rocksdb::Status status = rocksdb::Checkpoint::Create(&db, &made);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  if (status.ok()) status = checkpoint->CreateCheckpoint(path);
  if (!status.ok()) return FromRocksDb(status, Cat("a copy to ", folder, ": "));
  uint64_t last = 0;
  {
    absl::StatusOr<std::unique_ptr<LogDatabase>> copy = LogDatabase::Open(path, LogDatabase::Access::kRead);
    if (!copy.ok()) return Prefix(Cat(folder, ": "), copy.status());
    absl::StatusOr<LogContents> contents = ReadContents(**copy);
    if (!contents.ok()) return Prefix(Cat(folder, ": "), contents.status());
    last = contents->last_sequence;
    absl::StatusOr<std::unique_ptr<LogMark>> mark = LogMark::Open(unfinished, folder);
    if (!mark.ok()) return mark.status();
    (*mark)->Note(last);
    if (absl::Status noted = NoteClosedDatabase(path, **mark); !noted.ok()) return noted;
    if (absl::Status synced = (*mark)->Sync(); !synced.ok()) return synced;
  }
  if (absl::Status finished = FinishLog(folder); !finished.ok()) return finished;
  return last;
}

}  // namespace maxsim::collection
