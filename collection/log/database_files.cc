#include "collection/log/database_files.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/file.h"
#include "base/guard.h"
#include "base/text.h"
#include "collection/log/log_database.h"
#include "collection/log/record_chain.h"

namespace maxsim::collection {
namespace {

constexpr std::string_view kManifestPrefix = "MANIFEST-";
constexpr std::string_view kWalSuffix = ".log";
constexpr int64_t kMaxCurrentBytes = 256;
constexpr int64_t kMaxManifestBytes = int64_t{1} << 30;

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// Turns the error of a missing file into DATA_LOSS, for files that every database has.
absl::Status Lost(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsInvalidArgument(status) ? absl::DataLossError(status.message()) : status;
}

// The MANIFEST file that the file CURRENT names.
struct ManifestFile {
  std::string path;
  uint64_t number = 0;
  std::string bytes;
};

absl::StatusOr<ManifestFile> ReadManifestFile(const std::string& database_path) {
  const std::string current = JoinPath(database_path, "CURRENT");
  absl::StatusOr<std::string> name = ReadSmallFile(current, kMaxCurrentBytes);
  if (!name.ok()) return Lost(name.status());
  std::string_view text = *name;
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::optional<uint64_t> number;
  if (text.substr(0, kManifestPrefix.size()) == kManifestPrefix)
    number = ParseNumber(text.substr(kManifestPrefix.size()));
  if (!number.has_value() || name->back() != '\n') {
    return absl::DataLossError(Cat(current, ": ", Quote(*name), " names no MANIFEST"));
  }
  ManifestFile manifest{JoinPath(database_path, text), *number, {}};
  absl::StatusOr<std::string> bytes = ReadSmallFile(manifest.path, kMaxManifestBytes);
  if (!bytes.ok()) return Lost(bytes.status());
  manifest.bytes = *std::move(bytes);
  return manifest;
}

// The newest write-ahead log; number 0 if there is none.
struct WalFile {
  std::string path;
  uint64_t number = 0;
};

// Finds the newest write-ahead log of at least `min_bytes`.
absl::StatusOr<WalFile> FindLastWal(const std::string& database_path, uint64_t min_bytes = 0) {
  const absl::StatusOr<std::vector<std::string>> names = ListFiles(database_path);
  if (!names.ok()) return names.status();
  WalFile last;
  for (const std::string& name : *names) {
    if (!absl::EndsWith(name, ForStrCat(kWalSuffix))) continue;
    const uint64_t number = ParseNumber(std::string_view(name).substr(0, name.size() - 4)).value_or(0);
    std::string path = JoinPath(database_path, name);
    std::error_code error;
    const uint64_t num_bytes = std::filesystem::file_size(path, error);
    if (error) return ErrnoStatus(error.value(), "cannot look at", path);
    if (number > last.number && num_bytes >= min_bytes) last = {std::move(path), number};
  }
  return last;
}

absl::Status CheckClosedWal(const std::string& path) {
  const absl::StatusOr<RecordChain> chain = FollowRecords(path);
  if (!chain.ok()) return Lost(chain.status());
  if (chain->intact_bytes == chain->num_bytes) return absl::OkStatus();
  return absl::DataLossError(
      Cat(path, ": of ", chain->num_bytes, " bytes only the first ", chain->intact_bytes, " can be read"));
}

}  // namespace

absl::Status CheckManifestFile(const std::string& database_path, const WrittenFiles& written) {
  const absl::StatusOr<ManifestFile> manifest = ReadManifestFile(database_path);
  if (!manifest.ok()) return manifest.status();
  const uint64_t num_bytes = manifest->bytes.size();
  if (manifest->number < written.manifest_number) {
    return absl::DataLossError(
        Cat(manifest->path, ": is older than MANIFEST ", written.manifest_number, ", which took its place"));
  }
  const bool is_noted = manifest->number == written.manifest_number && written.manifest_number != 0;
  if (is_noted && num_bytes < written.manifest_bytes) {
    return absl::DataLossError(
        Cat(manifest->path, ": has ", num_bytes, " bytes, but at least ", written.manifest_bytes, " were written"));
  }
  if (is_noted && XXH3_64bits(manifest->bytes.data(), written.manifest_bytes) != written.manifest_hash) {
    return absl::DataLossError(
        Cat(manifest->path, ": the first ", written.manifest_bytes, " bytes are not those that were written"));
  }
  return absl::OkStatus();
}

absl::Status CheckWalFiles(const std::string& database_path, const WrittenFiles& written, uint64_t min_needed) {
  const absl::StatusOr<std::vector<std::string>> names = ListFiles(database_path);
  if (!names.ok()) return names.status();
  bool found = false;
  for (const std::string& name : *names) {
    if (!absl::EndsWith(name, ForStrCat(kWalSuffix))) continue;
    const std::optional<uint64_t> number = ParseNumber(std::string_view(name).substr(0, name.size() - 4));
    if (!number.has_value() || *number < min_needed || *number > written.wal_number) continue;
    const std::string path = JoinPath(database_path, name);
    if (*number < written.wal_number) {
      if (absl::Status status = CheckClosedWal(path); !status.ok()) return status;
      continue;
    }
    found = true;
    const absl::StatusOr<RecordChain> chain = FollowRecords(path);
    if (!chain.ok()) return Lost(chain.status());
    if (chain->intact_bytes < written.wal_bytes) {
      return absl::DataLossError(Cat(path, ": only the first ", chain->intact_bytes,
                                     " bytes can be read, but at least ", written.wal_bytes, " were written"));
    }
  }
  if (found || written.wal_bytes == 0 || written.wal_number < min_needed) return absl::OkStatus();
  return absl::DataLossError(Cat(database_path, ": the write-ahead log ", written.wal_number, " is missing; at least ",
                                 written.wal_bytes, " bytes of it were written"));
}

absl::StatusOr<TornTails> FindTornTails(const std::string& database_path, const WrittenFiles& written) {
  TornTails tails;
  const absl::StatusOr<ManifestFile> manifest = ReadManifestFile(database_path);
  if (!manifest.ok()) return manifest.status();
  const RecordChain edits = FollowRecords(std::string_view(manifest->bytes));
  const bool is_noted = manifest->number == written.manifest_number && written.manifest_number != 0;
  // RocksDB may write several edits before it syncs the MANIFEST, so undamaged edits may follow one that a power cut
  // tore. All edits up to the length in the mark were synced, so damage before that length is not a torn write.
  const bool is_torn =
      edits.intact_bytes < edits.num_bytes &&
      (is_noted ? edits.intact_bytes >= written.manifest_bytes : !HasRecordBehind(manifest->bytes, edits.torn_at));
  if (is_torn) tails[manifest->path] = edits.intact_bytes;
  // Skips a write-ahead log that is empty or has only one record without a write: a start that did not finish may have
  // left it.
  constexpr uint64_t kMinBytes = 7 + 12 + 1;  // one byte more than the headers of a record and a batch
  const absl::StatusOr<WalFile> wal = FindLastWal(database_path, kMinBytes);
  if (!wal.ok()) return wal.status();
  if (wal->number == 0) return tails;
  const absl::StatusOr<InputFile> file = InputFile::Open(wal->path);
  if (!file.ok()) return file.status();
  const absl::StatusOr<FileBytes> bytes = FileBytes::Map(*file);
  if (!bytes.ok()) return bytes.status();
  const RecordChain chain = FollowRecords(bytes->view());
  const uint64_t min_bytes = wal->number == written.wal_number ? written.wal_bytes : 0;
  if (chain.intact_bytes < chain.num_bytes && chain.intact_bytes >= min_bytes &&
      !HasRecordBehind(bytes->view(), chain.torn_at)) {
    tails[wal->path] = chain.intact_bytes;
  }
  return tails;
}

absl::Status NoteClosedDatabase(const std::string& database_path, LogMark& mark) {
  const absl::StatusOr<ManifestFile> manifest = ReadManifestFile(database_path);
  if (!manifest.ok()) return manifest.status();
  mark.NoteManifest(manifest->number, manifest->bytes.size(),
                    XXH3_64bits(manifest->bytes.data(), manifest->bytes.size()));
  const absl::StatusOr<WalFile> wal = FindLastWal(database_path);
  if (!wal.ok()) return wal.status();
  if (wal->number == 0) return absl::OkStatus();
  const absl::StatusOr<RecordChain> chain = FollowRecords(wal->path);
  if (!chain.ok()) return chain.status();
  mark.NoteWal(wal->number, chain->intact_bytes);
  return absl::OkStatus();
}

absl::Status NoteManifestOf(rocksdb::DB& db, LogMark& mark) {
  std::vector<std::string> names;
  uint64_t num_bytes = 0;  // the MANIFEST's bytes on disk; more may be being written
  const rocksdb::Status found = db.GetLiveFiles(names, &num_bytes, /*flush_memtable=*/false);
  if (!found.ok()) return FromRocksDb(found, "");
  for (const std::string& name : names) {
    const size_t at = name.find(kManifestPrefix);
    if (at == std::string::npos) continue;
    const std::string path = JoinPath(db.GetName(), std::string_view(name).substr(at));
    const std::optional<uint64_t> number = ParseNumber(std::string_view(name).substr(at + kManifestPrefix.size()));
    const absl::StatusOr<std::string> bytes = ReadSmallFile(path, kMaxManifestBytes);
    if (!bytes.ok()) return bytes.status();
    if (!number.has_value() || bytes->size() < num_bytes) return absl::DataLossError(Cat(path, ": is too short"));
    mark.NoteManifest(*number, num_bytes, XXH3_64bits(bytes->data(), num_bytes));
  }
  // A failure is harmless: the mark on disk then has an older length, which is still a valid lower limit.
  mark.Sync().IgnoreError();
  return absl::OkStatus();
}

namespace {

class ManifestListener : public rocksdb::EventListener {
 public:
  explicit ManifestListener(LogMark* mark) : mark_(mark) {}
  // A failure is harmless: the mark keeps an older length, which is still a valid lower limit.
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& /*info*/) override { Note(*db); }
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& /*info*/) override { Note(*db); }

 private:
  void Note(rocksdb::DB& db) {
    Guarded([&] { return NoteManifestOf(db, *mark_); }).IgnoreError();
  }

  LogMark* const mark_;
};

}  // namespace

std::shared_ptr<rocksdb::EventListener> MakeManifestListener(LogMark* mark) {
  return std::make_shared<ManifestListener>(mark);
}

}  // namespace maxsim::collection
