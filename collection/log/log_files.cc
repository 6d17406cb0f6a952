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

absl::Status WriteFirstMeta(const LogDatabase& database, const LogFormat& format, uint64_t begin,
                            uint64_t remembered_bytes) {
  rocksdb::WriteBatch batch;
  const auto put = [&](std::string_view key, const std::string& value) {
    return batch.Put(database.family(LogFamily::kMeta), AsSlice(key), value);
  };
  rocksdb::Status status = put(kFormatVersionKey, Cat(kLogFormatVersion));
  if (status.ok()) status = put(kFormatKey, Describe(format));
  if (status.ok()) status = put(kFirstKey, Cat(begin));
  if (status.ok()) status = put(kLastKey, Cat(begin));
  if (status.ok()) status = put(kDeletedBytesKey, Cat(0));
  if (status.ok()) status = put(kRememberedBytesKey, Cat(remembered_bytes));
  if (status.ok()) status = database.db().Write(Synced(), &batch);
  return FromRocksDb(status, "");
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

absl::Status CreateLog(const std::string& folder, const LogFormat& format, uint64_t begin, uint64_t remembered_bytes) {
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
      if (absl::Status status = WriteFirstMeta(**database, format, begin, remembered_bytes); !status.ok()) {
        return Prefix(prefix, status);
      }
    }
    (*mark)->Note(begin);
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
