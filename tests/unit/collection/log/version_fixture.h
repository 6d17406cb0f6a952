// A log with a limit that the test chooses for the versions of deleted ids. The test can also change the log's
// database directly.
#pragma once

#include <rocksdb/write_batch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "collection/log/collection_log.h"
#include "collection/log/log_check.h"
#include "collection/log/log_database.h"
#include "collection/log/log_files.h"
#include "collection/log/log_mark.h"
#include "collection/log/log_summary.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/unit/collection/log/log_fixture.h"

namespace maxsim::collection {

inline constexpr uint64_t kSmallMemory = 1000;

class VersionMemoryTest : public ::testing::Test {
 protected:
  void Create(uint64_t remembered_bytes) { Open(CollectionLog::Mode::kCreate, remembered_bytes); }
  void Open(CollectionLog::Mode mode = CollectionLog::Mode::kMustExist, uint64_t remembered_bytes = kRememberedBytes) {
    log_.reset();
    auto opened = CollectionLog::Open(folder_.path(), SmallLogFormat(), mode, 0, remembered_bytes);
    ASSERT_TRUE(opened.ok()) << opened.status();
    log_ = *std::move(opened);
  }
  absl::Status Upsert(const std::string& id, uint64_t version) {
    const std::string rows = MarkedRows(1, 1);
    LogRecord record;
    record.sequence = log_->last_sequence() + 1;
    record.string_id = id;
    record.version = version;
    record.num_tokens = 1;
    record.rows = rows;
    return log_->Append({record});
  }
  // Deletes the ids with one Append.
  absl::Status Delete(const std::vector<std::string>& ids, uint64_t version) {
    std::vector<LogRecord> records;
    for (const std::string& id : ids) {
      LogRecord& record = records.emplace_back();
      record.kind = LogRecord::Kind::kDelete;
      record.sequence = log_->last_sequence() + records.size();
      record.string_id = id;
      record.version = version;
    }
    return log_->Append(records);
  }
  uint64_t VersionOf(const std::string& id, uint64_t pending_bytes = 0) {
    return log_->VersionOf(std::string_view(id), pending_bytes).value_or(99);
  }
  absl::Status DropRecords() {
    absl::Status status = log_->Truncate(log_->last_sequence(), 0);
    return status.ok() ? log_->ReclaimSpace() : status;
  }
  LogReport Verify() {
    Manifest manifest;
    manifest.name = "x";
    manifest.id_type = IdType::kString;
    manifest.storage = ScalarType::kF16;
    manifest.dim = SmallLogFormat().dim;
    manifest.log_sequence = log_->first_sequence();
    const absl::StatusOr<LogReport> report = VerifyLog(folder_.path(), manifest);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : LogReport();
  }
  // Closes the log, changes its database and opens the log again.
  void Change(const std::function<void(LogDatabase&, rocksdb::WriteBatch&)>& change) {
    CloseAndChange(change);
    Open();
  }
  void CloseAndChange(const std::function<void(LogDatabase&, rocksdb::WriteBatch&)>& change) {
    log_.reset();
    const auto mark = LogMark::Open(LogFolder(folder_.path()), folder_.path());
    ASSERT_TRUE(mark.ok()) << mark.status();
    const auto database = LogDatabase::Open(LogDatabasePath(folder_.path()), LogDatabase::Access::kWrite, mark->get());
    ASSERT_TRUE(database.ok()) << database.status();
    rocksdb::WriteBatch batch;
    change(**database, batch);
    (*mark)->NoteWal(0, 0);
    ASSERT_TRUE((*database)->db().Write(Synced(), &batch).ok());
  }
  // Converts the log to format 1, which does not mark the versions of deleted ids.
  void MakeOld(const std::vector<std::pair<std::string, uint64_t>>& versions) {
    Change([&](LogDatabase& database, rocksdb::WriteBatch& batch) {
      rocksdb::ColumnFamilyHandle* const meta = database.family(LogFamily::kMeta);
      batch.Put(meta, AsSlice(kFormatVersionKey), "1");
      batch.Put(meta, AsSlice(kHasVersionsKey), "");
      batch.Delete(meta, AsSlice(kDeletedBytesKey));
      batch.Delete(meta, AsSlice(kRememberedBytesKey));
      for (const auto& [id, version] : versions) {
        batch.Put(database.family(LogFamily::kVersions), id, BigEndian(version));
      }
    });
  }
  void SetMeta(std::string_view key, const std::string& value) {
    Change([&](LogDatabase& database, rocksdb::WriteBatch& batch) {
      batch.Put(database.family(LogFamily::kMeta), AsSlice(key), value);
    });
  }

  TemporaryFolder folder_;
  std::unique_ptr<CollectionLog> log_;
};

}  // namespace maxsim::collection
