#include "collection/log/log_database.h"

#include <rocksdb/cache.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <charconv>
#include <cstdarg>
#include <exception>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/start_thread.h"
#include "base/text.h"
#include "collection/log/collection_log.h"
#include "collection/log/database_files.h"
#include "collection/log/log_versions.h"

namespace maxsim::collection {
namespace {

// Values of at least this size are stored in blob files, which compactions of the database never rewrite.
constexpr uint64_t kMinBlobBytes = 1024;

// A full buffer of records is written to a blob file, and its write-ahead log is deleted. So this size limits the
// memory, the number of records that a start replays, and the space that a truncated log still takes.
constexpr size_t kRecordBufferBytes = size_t{32} << 20;
constexpr int kMaxBuffers = 4;  // of a family: one is written to while the others become files
constexpr size_t kAllBufferBytes = size_t{160} << 20;
constexpr uint64_t kWriteAheadLogBytes = uint64_t{256} << 20;
constexpr size_t kVersionBufferBytes = size_t{8} << 20;
constexpr size_t kSmallBufferBytes = size_t{1} << 20;
constexpr size_t kCacheBytes = size_t{8} << 20;
constexpr int kReadAttempts = 5;
constexpr int kMaxOpenFiles = kMaxLogDescriptors - kOtherLogDescriptors;

// Discards RocksDB's own log messages. The statuses that it returns are enough for operators.
class NoInfoLog : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* /*format*/, va_list /*arguments*/) override {}
};

rocksdb::DBOptions DatabaseOptions(LogDatabase::Access access) {
  rocksdb::DBOptions options;
  options.create_if_missing = access == LogDatabase::Access::kCreate;
  options.create_missing_column_families = options.create_if_missing;
  options.error_if_exists = options.create_if_missing;
  options.paranoid_checks = true;
  options.verify_sst_unique_id_in_manifest = true;
  // Drops an incomplete write at the end, which was not acknowledged. Any other damage is an error.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.track_and_verify_wals_in_manifest = true;
  if (access == LogDatabase::Access::kReadUpToDamage || access == LogDatabase::Access::kReadAroundDamage) {
    options.track_and_verify_wals_in_manifest = false;
    options.wal_recovery_mode = access == LogDatabase::Access::kReadUpToDamage
                                    ? rocksdb::WALRecoveryMode::kPointInTimeRecovery
                                    : rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  }
  // A reader opens all files at once and keeps them open, because a writer in another process may delete files.
  const bool writes = access == LogDatabase::Access::kCreate || access == LogDatabase::Access::kWrite;
  options.max_open_files = writes ? kMaxOpenFiles : -1;
  options.table_cache_numshardbits = 0;  // each of the usual 64 parts would keep at least one file open
  options.max_file_opening_threads = 1;
  options.max_background_jobs = 2;
  options.db_write_buffer_size = kAllBufferBytes;
  options.max_total_wal_size = kWriteAheadLogBytes;
  options.max_manifest_file_size = uint64_t{16} << 20;
  // Makes the disk start writing before a large group or flush is complete.
  options.bytes_per_sync = uint64_t{1} << 20;
  options.wal_bytes_per_sync = uint64_t{1} << 20;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.skip_stats_update_on_db_open = true;
  options.info_log = std::make_shared<NoInfoLog>();
  return options;
}

rocksdb::ColumnFamilyOptions FamilyOptions(size_t buffer_bytes, const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions options;
  options.write_buffer_size = buffer_bytes;
  options.max_write_buffer_number = kMaxBuffers;
  options.compression = rocksdb::kNoCompression;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.checksum = rocksdb::kXXH3;
  table.format_version = 5;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> Families(const VersionFilter* version_filter) {
  const std::shared_ptr<rocksdb::Cache> cache = rocksdb::NewLRUCache(kCacheBytes);
  rocksdb::ColumnFamilyOptions records = FamilyOptions(kRecordBufferBytes, cache);
  // Does not compress: token vectors hardly shrink. On F16 rows of the Cranfield collection, LZ4 saved nothing and zstd
  // 8 %.
  records.enable_blob_files = true;
  records.min_blob_size = kMinBlobBytes;
  records.blob_compression_type = rocksdb::kNoCompression;
  // Records are dropped in the order in which they were written, so whole blob files become unused at a time.
  records.enable_blob_garbage_collection = false;
  records.level0_slowdown_writes_trigger = 40;
  records.level0_stop_writes_trigger = 60;
  rocksdb::ColumnFamilyOptions versions = FamilyOptions(kVersionBufferBytes, cache);
  versions.compaction_filter = version_filter;
  return {{rocksdb::kDefaultColumnFamilyName, FamilyOptions(kSmallBufferBytes, cache)},
          {"records", records},
          {"versions", versions},
          {"tombstones", FamilyOptions(kSmallBufferBytes, cache)}};
}

// RocksDB recognises only ENOSPC as a full disk.
bool IsFull(const rocksdb::Status& status) {
  if (status.IsNoSpace()) return true;
  if (!status.IsIOError() && !status.IsAborted()) return false;
  const auto says = [&](const char* words) { return absl::StrContains(status.ToString(), words); };
  return says("No space left on device") || says("Disk quota exceeded") || says("File too large");
}

}  // namespace

absl::Status FromRocksDb(const rocksdb::Status& status, std::string_view prefix) {
  if (status.ok()) return absl::OkStatus();
  constexpr size_t kLongest = 1024;
  const std::string message = Cat(prefix, Printable(status.ToString(), kLongest));
  // All of these mean that data was lost. RocksDB returns InvalidArgument if its own files have wrong contents.
  const bool is_gone = status.IsIOError() && status.subcode() == rocksdb::Status::SubCode::kPathNotFound;
  if (status.IsCorruption() || status.IsInvalidArgument() || status.IsNotSupported() || is_gone) {
    return absl::DataLossError(message);
  }
  if (IsFull(status) || status.IsMemoryLimit()) return absl::ResourceExhaustedError(message);
  if (status.IsNotFound()) return absl::NotFoundError(message);
  return absl::UnavailableError(message);
}

std::string BigEndian(uint64_t number) {
  std::string bytes(8, '\0');
  for (size_t idx = 8; idx-- > 0; number >>= 8) bytes[idx] = static_cast<char>(number & 0xff);
  return bytes;
}

uint64_t FromBigEndian(std::string_view bytes) {
  uint64_t number = 0;
  for (size_t idx = 0; idx < 8; ++idx) number = number << 8 | static_cast<unsigned char>(bytes[idx]);
  return number;
}

namespace {

// Starts RocksDB's threads before the first database is opened, and returns an error if the system cannot start that
// many. Otherwise RocksDB would start them later, and throw an exception in the middle of its work if that failed.
absl::Status StartRocksDbThreads() {
  constexpr size_t kNumThreads = 3;  // for flushes, for compactions and for the timer
  static std::mutex mutex;
  static bool started = false;
  const std::lock_guard lock(mutex);
  if (started) return absl::OkStatus();
  std::array<std::thread, kNumThreads> probes;
  std::promise<void> end;
  const std::shared_future<void> ended(end.get_future());
  absl::Status status;
  for (std::thread& probe : probes) {
    if (status.ok())
      status = StartThread(
          "rocksdb", [ended] { ended.wait(); }, &probe);
  }
  end.set_value();
  for (std::thread& probe : probes) {
    if (probe.joinable()) probe.join();
  }
  if (!status.ok()) return status;
  rocksdb::Env* const env = rocksdb::Env::Default();
  for (const auto priority : {rocksdb::Env::Priority::HIGH, rocksdb::Env::Priority::LOW}) {
    env->IncBackgroundThreadsIfNeeded(1, priority);
    env->Schedule([](void* /*nothing*/) {}, nullptr, priority);
  }
  started = true;
  return absl::OkStatus();
}

// Turns a std::system_error, such as a failure to start a thread, into a status.
template <typename Open>
absl::Status OpenDatabase(Open open) {
  try {
    return FromRocksDb(open(), "");
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(Cat("RocksDB: ", error.what()));
  }
}

}  // namespace

LogDatabase::LogDatabase() : version_filter_(std::make_unique<VersionFilter>()) {}

absl::StatusOr<std::unique_ptr<LogDatabase>> LogDatabase::Open(const std::string& path, Access access, LogMark* mark,
                                                               const TornTails& tails) {
  std::unique_ptr<LogDatabase> database(new LogDatabase());
  const std::vector<rocksdb::ColumnFamilyDescriptor> described = Families(database->version_filter_.get());
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  rocksdb::DB* db = nullptr;
  rocksdb::DBOptions options = DatabaseOptions(access);
  if (!tails.empty()) {
    database->env_ = MakeEnvWithoutTails(tails);
    options.env = database->env_.get();
  }
  if (mark != nullptr) options.listeners.push_back(MakeManifestListener(mark));
  const bool writes = access == Access::kCreate || access == Access::kWrite;
  if (absl::Status status = StartRocksDbThreads(); !status.ok()) return status;
  // While a reader opens the database, a writer may delete a file that the reader has found in the MANIFEST. By then
  // the MANIFEST names other files, so the reader tries again. A damaged log fails every time.
  absl::Status status;
  for (int attempts_left = writes ? 1 : kReadAttempts; attempts_left > 0; --attempts_left) {
    families.clear();
    status = OpenDatabase([&] {
      if (writes) return rocksdb::DB::Open(options, path, described, &families, &db);
      return rocksdb::DB::OpenForReadOnly(options, path, described, &families, &db, /*error_if_wal_file_exists=*/false);
    });
    if (status.ok()) break;
  }
  if (!status.ok()) return status;
  database->db_.reset(db);
  std::copy(families.begin(), families.end(), database->families_.begin());
  if (mark == nullptr) return database;
  if (absl::Status noted = NoteManifestOf(*db, *mark); !noted.ok()) return noted;
  return database;
}

LogDatabase::~LogDatabase() {
  if (db_ == nullptr) return;
  try {
    for (rocksdb::ColumnFamilyHandle* family : families_) db_->DestroyColumnFamilyHandle(family).PermitUncheckedError();
    db_->Close().PermitUncheckedError();
  } catch (const std::exception&) {
    // There is no memory or no thread for closing. Leaks the database on purpose, because it is half closed. All
    // acknowledged writes are on disk, as after a crash.
    [[maybe_unused]] rocksdb::DB* const left = db_.release();
    [[maybe_unused]] rocksdb::Env* const used = env_.release();
    [[maybe_unused]] VersionFilter* const filter = version_filter_.release();
  }
}

void LogDatabase::ForgetVersionsBelow(uint64_t deleted_bytes) { version_filter_->set_forgotten_below(deleted_bytes); }

absl::StatusOr<std::string> LogDatabase::GetMeta(std::string_view key) const {
  std::string value;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), family(LogFamily::kMeta), AsSlice(key), &value);
  if (!status.ok()) return FromRocksDb(status, Cat(key, ": "));
  return value;
}

absl::StatusOr<uint64_t> LogDatabase::GetMetaNumber(std::string_view key) const {
  absl::StatusOr<std::string> text = GetMeta(key);
  if (!text.ok()) return text.status();
  uint64_t number = 0;
  const char* end = text->data() + text->size();
  const auto [parsed, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc() || parsed != end) {
    return absl::DataLossError(Cat(key, ": ", Quote(*text), " is not a number"));
  }
  return number;
}

}  // namespace maxsim::collection
