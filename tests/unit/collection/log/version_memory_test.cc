// Tests when a log forgets the versions of deleted ids.
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
#include "tests/unit/collection/log/version_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

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
  expect_problem("id39", std::nullopt, "has no version, but the write with sequence 41 gave it 5");
  expect_problem("document", std::nullopt, "has no version, but the write with sequence 1 gave it 3");
  expect_problem("id39", StoredVersion{6, std::nullopt}, "has version 6");
  expect_problem("id39", StoredVersion{5, 7}, "was deleted at 7 deleted bytes");
  expect_problem("id39", StoredVersion{5, 1'000'000}, "was deleted at 1000000 deleted bytes, but the log counts");
}

// All servers that follow a stream must forget the same versions, even if they run different builds. So the limit
// belongs to the format of the stream's messages: a new limit needs a new message version.
TEST(VersionMemoryRuleTest, TheLimitIsOfTheFormatOfAStreamsMessages) {
  EXPECT_EQ(kRememberedBytes, uint64_t{128} << 20) << "another one needs a new version of the messages";
}

TEST_F(VersionMemoryTest, GivesTheSpaceOfRecordsBackWhereVersionsAreDamaged) {
  Create(uint64_t{1} << 20);
  const std::string tail(390, 'x');
  std::vector<std::string> ids;
  for (size_t idx = 0; idx < 6000; ++idx) ids.push_back(Cat(10'000 + idx) + tail);
  ASSERT_TRUE(Delete(ids, 5).ok());
  constexpr int32_t kTokensPerDocument = 60'000;  // of 16 bytes
  for (int idx = 0; idx < 5; ++idx) ASSERT_TRUE(AppendMarked(*log_, 1, kTokensPerDocument).ok());
  Open();  // writes everything to files
  std::string table;
  {
    const auto reader = LogDatabase::Open(LogDatabasePath(folder_.path()), LogDatabase::Access::kRead);
    ASSERT_TRUE(reader.ok()) << reader.status();
    std::vector<rocksdb::LiveFileMetaData> files;
    (*reader)->db().GetLiveFilesMetaData(&files);
    for (const rocksdb::LiveFileMetaData& file : files) {
      if (file.column_family_name == "versions" && file.size > 100'000) table = file.relative_filename;
    }
  }
  ASSERT_NE(table, "");
  const std::string path = JoinPath(LogDatabasePath(folder_.path()), table);
  std::string bytes = ReadBytes(path);
  for (size_t at = 1000; at < bytes.size() / 2; at += 1000) bytes[at] ^= 1;
  WriteBytes(path, bytes);
  const uint64_t before = log_->num_bytes();
  const absl::Status status = DropRecords();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("giving space back: versions: "));
  EXPECT_TRUE(test::Eventually([&] { return log_->num_bytes() + 4'000'000 < before; })) << log_->num_bytes();
}

}  // namespace
}  // namespace maxsim::collection
