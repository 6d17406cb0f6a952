// Tests the upgrade of logs of earlier formats, which did not mark the versions of deleted ids.
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/stop.h"
#include "collection/log/version_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/collection/log/version_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class VersionUpgradeTest : public VersionMemoryTest {};

TEST_F(VersionUpgradeTest, OfAnEarlierVersionIsUpgradedOnce) {
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

TEST_F(VersionUpgradeTest, IsUpgradedAgainWhereThatWasCutOff) {
  Create(kSmallMemory);
  MakeOld({{"deleted", 9}});
  ASSERT_TRUE(log_->UpgradeVersions([](const LogRecord&) { return false; }).ok());
  SetMeta(kOldVersionsKey, "");
  EXPECT_TRUE(absl::IsFailedPrecondition(Upsert("new", 1)));
  ASSERT_TRUE(log_->UpgradeVersions([](const LogRecord&) { return false; }).ok());
  EXPECT_EQ(VersionOf("deleted"), 9);
  ASSERT_TRUE(Upsert("new", 1).ok());
}

TEST_F(VersionUpgradeTest, OfALogThatFollowsAStreamKeepsIt) {
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

TEST_F(VersionUpgradeTest, StopsSoonAndBeginsAgain) {
  Create(kRememberedBytes);
  std::vector<std::pair<std::string, uint64_t>> versions;
  for (uint64_t idx = 0; idx < 3 * kStopBlockDocuments; ++idx) versions.emplace_back(Cat("id", 10'000 + idx), 1 + idx);
  MakeOld(versions);
  StopSignal stop;
  uint64_t num_asked = 0;
  const auto holds = [&](const LogRecord&) {
    ++num_asked;
    stop.Request(absl::StatusCode::kUnavailable);
    return false;
  };
  EXPECT_TRUE(absl::IsUnavailable(log_->UpgradeVersions(holds, &stop)));
  EXPECT_LE(num_asked, static_cast<uint64_t>(kStopBlockDocuments));
  EXPECT_TRUE(absl::IsFailedPrecondition(Upsert("new", 1)));
  Open();
  num_asked = 0;
  ASSERT_TRUE(log_->UpgradeVersions(holds).ok());
  EXPECT_EQ(num_asked, versions.size());
  ASSERT_TRUE(Upsert("new", 1).ok());
  EXPECT_EQ(VersionOf("id10007"), 8);
}

TEST_F(VersionUpgradeTest, OfALaterVersionIsRefusedAndNotCalledDamaged) {
  for (const auto& [version, is_later] : {std::pair("5", true), std::pair("0", false)}) {
    Create(kSmallMemory);
    CloseAndChange([&, version = version](LogDatabase& database, rocksdb::WriteBatch& batch) {
      batch.Put(database.family(LogFamily::kMeta), AsSlice(kFormatVersionKey), version);
    });
    const absl::Status status =
        CollectionLog::Open(folder_.path(), SmallLogFormat(), CollectionLog::Mode::kMustExist).status();
    EXPECT_EQ(status.code(), is_later ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kDataLoss);
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr(folder_.path()), HasSubstr(Cat("format_version: ", version, "; this version reads 1 to 4"))));
    EXPECT_EQ(absl::StrContains(status.message(), "is damaged"), !is_later) << status;
    std::filesystem::remove_all(LogFolder(folder_.path()));
  }
}

// An upgrade is interrupted after it has marked some versions, and then the log follows a stream. The log must not go
// back to format 2: an earlier program would append to it without knowing the marked versions.
TEST_F(VersionUpgradeTest, AStreamThatIsFollowedAfterOneThatWasCutOffKeepsTheNewFormat) {
  Create(kRememberedBytes);
  MakeOld({{"deleted", 9}});
  StopSignal stop;
  stop.Request(absl::StatusCode::kUnavailable);
  for (const bool reopened : {false, true}) {
    EXPECT_TRUE(absl::IsUnavailable(log_->UpgradeVersions([](const LogRecord&) { return false; }, &stop)));
    if (reopened) Open();
  }
  ASSERT_TRUE(log_->Follow({"maxsim-docs", 1'700'000'000'000'000'001}).ok());
  Change([](LogDatabase& database, rocksdb::WriteBatch&) {
    EXPECT_EQ(database.GetMetaNumber(kFormatVersionKey).value_or(0), kStreamedLogFormatVersion);
  });
  ASSERT_TRUE(log_->UpgradeVersions([](const LogRecord&) { return false; }).ok());
  ASSERT_TRUE(Upsert("new", 1).ok());
}

}  // namespace
}  // namespace maxsim::collection
