// How long a log remembers the versions of deleted ids.
#include "collection/log/version_memory.h"

#include <rocksdb/write_batch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "collection/log/collection_log.h"
#include "collection/log/log_check.h"
#include "collection/log/log_database.h"
#include "collection/log/log_files.h"
#include "collection/log/log_mark.h"
#include "collection/log/log_summary.h"
#include "collection/log/log_versions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/collection/log/log_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kSmallMemory = 1000;

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
    log_.reset();
    {
      const auto mark = LogMark::Open(LogFolder(folder_.path()), folder_.path());
      ASSERT_TRUE(mark.ok()) << mark.status();
      const auto database =
          LogDatabase::Open(LogDatabasePath(folder_.path()), LogDatabase::Access::kWrite, mark->get());
      ASSERT_TRUE(database.ok()) << database.status();
      rocksdb::WriteBatch batch;
      change(**database, batch);
      (*mark)->NoteWal(0, 0);
      ASSERT_TRUE((*database)->db().Write(Synced(), &batch).ok());
    }
    Open();
  }
  // Turns the log into one of format 1, which did not distinguish the versions of deleted ids from those of documents.
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

TEST_F(VersionMemoryTest, ForgetsADeletedIdOnceLaterDeletesPassTheLimit) {
  Create(kSmallMemory);
  EXPECT_EQ(log_->remembered_bytes(), kSmallMemory);
  ASSERT_TRUE(Upsert("document", 7).ok());
  ASSERT_TRUE(Delete({"first"}, 9).ok());
  // Each adds 100 bytes.
  const auto other = [](int idx) { return Cat(100 + idx) + std::string(33, 'x'); };
  for (int idx = 0; idx < 10; ++idx) ASSERT_TRUE(Delete({other(idx)}, 5).ok());
  EXPECT_EQ(VersionOf("first"), 9) << "the limit is reached, and not passed";
  EXPECT_EQ(VersionOf("first", 1), 0) << "as a write sees it that follows a delete in the same group";
  ASSERT_TRUE(Upsert("unversioned", 0).ok());
  ASSERT_TRUE(Delete({"unversioned"}, 0).ok());
  EXPECT_EQ(VersionOf("first"), 9) << "only deletes with a version count";
  Open();
  EXPECT_EQ(log_->remembered_bytes(), kSmallMemory);
  EXPECT_EQ(VersionOf("first"), 9);
  ASSERT_TRUE(Delete({other(10)}, 5).ok());
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(VersionOf("first"), 0);
    EXPECT_EQ(VersionOf(other(0)), 5);
    EXPECT_EQ(VersionOf("document"), 7) << "that of a document stays";
    if (round == 0) Open();
    if (round == 1) {
      ASSERT_TRUE(DropRecords().ok());
    }
  }
}

TEST_F(VersionMemoryTest, AgreesWhereverAndWheneverItIsCompacted) {
  Create(kSmallMemory);
  const TemporaryFolder copy;
  std::unique_ptr<CollectionLog> other;
  for (int idx = 0; idx < 60; ++idx) {
    const std::string id = Cat("id", idx % 25);
    ASSERT_TRUE((idx % 4 == 3 ? Upsert(id, 1 + idx) : Delete({id}, 1 + idx)).ok());
    if (idx == 20) {
      ASSERT_TRUE(DropRecords().ok());
      ASSERT_TRUE(log_->Checkpoint(copy.path()).ok());
      auto opened = CollectionLog::Open(copy.path(), SmallLogFormat(), CollectionLog::Mode::kMustExist);
      ASSERT_TRUE(opened.ok()) << opened.status();
      other = *std::move(opened);
    }
    if (idx <= 20) continue;
    ASSERT_TRUE(log_->Read(log_->last_sequence() - 1, log_->last_sequence(),
                           [&](const LogRecord& record) { return other->Append({record}); })
                    .ok());
    if (idx % 7 == 0) {
      ASSERT_TRUE(DropRecords().ok());
    }
    if (idx % 11 == 0) Open();
    for (int number = 0; number < 25; ++number) {
      const std::string asked = Cat("id", number);
      ASSERT_EQ(VersionOf(asked), other->VersionOf(std::string_view(asked)).value_or(99)) << asked << " after " << idx;
    }
  }
}

TEST_F(VersionMemoryTest, GivesTheDiskSpaceOfForgottenVersionsBack) {
  constexpr uint64_t kMemory = uint64_t{2} << 20;
  constexpr size_t kIds = 40'000;
  Create(kMemory);
  ASSERT_TRUE(Upsert("document", 3).ok());
  const std::string tail(390, 'x');
  for (size_t call = 0; call < 4; ++call) {
    std::vector<std::string> ids;
    for (size_t idx = 0; idx < kIds / 4; ++idx) ids.push_back(Cat(1'000'000 + call * kIds + idx) + tail);
    ASSERT_TRUE(Delete(ids, 5).ok());
  }
  EXPECT_GT(log_->num_bytes(), kIds * tail.size());
  ASSERT_TRUE(DropRecords().ok());
  EXPECT_TRUE(test::Eventually([&] { return log_->num_bytes() < 2 * kMemory; })) << log_->num_bytes();
  EXPECT_EQ(VersionOf("document"), 3);
  EXPECT_EQ(VersionOf(Cat(1'000'000 + 3 * kIds + kIds / 4 - 1) + tail), 5) << "the last one";
  Open();
  EXPECT_LT(log_->num_bytes(), 2 * kMemory);
  EXPECT_EQ(Verify().num_problems, 0);
}

TEST_F(VersionMemoryTest, TakesNoMoreDiskSpaceThanItCounts) {
  Create(kRememberedBytes);
  for (const size_t size : {8, 400}) {
    constexpr size_t kIds = 20'000;
    const uint64_t before = log_->num_bytes();
    std::vector<std::string> ids;
    for (size_t idx = 0; idx < kIds; ++idx) ids.push_back(Cat(10'000'000 + idx) + std::string(size - 8, 'x'));
    ASSERT_TRUE(Delete(ids, 5).ok());
    ASSERT_TRUE(DropRecords().ok());
    const uint64_t limit = before + kIds * (size + kBytesPerVersion);
    EXPECT_TRUE(test::Eventually([&] { return log_->num_bytes() < limit; }))
        << static_cast<double>(log_->num_bytes() - before) / kIds << " bytes for an id of " << size;
    RecordProperty(Cat("bytes_of_id_", size), Cat((log_->num_bytes() - before) / kIds));
  }
}

TEST_F(VersionMemoryTest, IsVerified) {
  Create(kSmallMemory);
  ASSERT_TRUE(Upsert("document", 3).ok());
  for (int idx = 0; idx < 40; ++idx) ASSERT_TRUE(Delete({Cat("id", idx)}, 5).ok());
  EXPECT_EQ(Verify().num_problems, 0) << "forgotten versions are still there";
  Change([](LogDatabase& database, rocksdb::WriteBatch& batch) {
    batch.Delete(database.family(LogFamily::kVersions), "id0");
  });
  EXPECT_EQ(Verify().num_problems, 0) << "one is dropped";
  const auto expect_problem = [&](const std::string& id, const std::optional<StoredVersion>& wrong,
                                  const std::string& text) {
    std::string before;
    Change([&](LogDatabase& database, rocksdb::WriteBatch& batch) {
      rocksdb::ColumnFamilyHandle* const versions = database.family(LogFamily::kVersions);
      ASSERT_TRUE(database.db().Get(rocksdb::ReadOptions(), versions, id, &before).ok());
      wrong.has_value() ? batch.Put(versions, id, VersionValue(*wrong)) : batch.Delete(versions, id);
    });
    const LogReport report = Verify();
    ASSERT_FALSE(report.problems.empty()) << text;
    EXPECT_THAT(report.problems.front(), HasSubstr(text));
    Change([&](LogDatabase& database, rocksdb::WriteBatch& batch) {
      batch.Put(database.family(LogFamily::kVersions), id, before);
    });
    EXPECT_EQ(Verify().num_problems, 0);
  };
  expect_problem("id39", std::nullopt, "has no version, and the write with sequence 41 gave it 5");
  expect_problem("document", std::nullopt, "has no version, and the write with sequence 1 gave it 3");
  expect_problem("id39", StoredVersion{6, std::nullopt}, "has version 6");
  expect_problem("id39", StoredVersion{5, 7}, "was deleted at 7 deleted bytes");
  expect_problem("id39", StoredVersion{5, 1'000'000}, "was deleted at 1000000 deleted bytes, and the log counts");
}

TEST_F(VersionMemoryTest, OfAnEarlierVersionIsUpgradedOnce) {
  Create(kRememberedBytes);
  ASSERT_TRUE(Upsert("document", 3).ok());
  MakeOld({{"deleted", 9}, {"held", 4}});
  EXPECT_EQ(VersionOf("deleted"), 9);
  const absl::Status early = Upsert("new", 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(early)) << early;
  EXPECT_EQ(Verify().num_problems, 0);
  int num_asked = 0;
  const auto holds = [&](const LogRecord& record) {
    ++num_asked;
    return record.string_id != "deleted";
  };
  ASSERT_TRUE(log_->UpgradeVersions(holds).ok());
  EXPECT_EQ(num_asked, 3);
  ASSERT_TRUE(log_->UpgradeVersions(holds).ok());
  EXPECT_EQ(num_asked, 3);
  Open();
  ASSERT_TRUE(log_->UpgradeVersions(holds).ok());
  EXPECT_EQ(num_asked, 3);
  EXPECT_EQ(log_->remembered_bytes(), kRememberedBytes);
  EXPECT_EQ(VersionOf("deleted"), 9);
  EXPECT_EQ(Verify().num_problems, 0);
  SetMeta(kRememberedBytesKey, Cat(kSmallMemory));
  std::vector<std::string> ids(kSmallMemory / kBytesPerVersion + 1, "x");
  ASSERT_TRUE(Delete(ids, 5).ok());
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(VersionOf("deleted"), 0) << "it is the first to be forgotten";
    EXPECT_EQ(VersionOf("held"), 4);
    EXPECT_EQ(VersionOf("document"), 3);
    EXPECT_EQ(Verify().num_problems, 0);
    ASSERT_TRUE(DropRecords().ok());
  }
}

TEST_F(VersionMemoryTest, IsUpgradedAgainWhereThatWasCutOff) {
  Create(kSmallMemory);
  MakeOld({{"deleted", 9}});
  ASSERT_TRUE(log_->UpgradeVersions([](const LogRecord&) { return false; }).ok());
  SetMeta(kOldVersionsKey, "");
  EXPECT_TRUE(absl::IsFailedPrecondition(Upsert("new", 1)));
  ASSERT_TRUE(log_->UpgradeVersions([](const LogRecord&) { return false; }).ok());
  EXPECT_EQ(VersionOf("deleted"), 9);
  ASSERT_TRUE(Upsert("new", 1).ok());
}

TEST_F(VersionMemoryTest, OfALogThatFollowsAStreamKeepsIt) {
  Create(kSmallMemory);
  MakeOld({});
  const LogStream stream{"maxsim-docs", 1'700'000'000'000'000'001};
  ASSERT_TRUE(log_->Follow(stream).ok());
  Open();
  EXPECT_EQ(log_->stream(), stream);
  ASSERT_TRUE(log_->UpgradeVersions([](const LogRecord&) { return false; }).ok());
  Open();
  EXPECT_EQ(log_->stream(), stream);
  EXPECT_TRUE(Delete({"x"}, 1).ok());
}

}  // namespace
}  // namespace maxsim::collection
