#include "collection/log/collection_log.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/unit/collection/log/log_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CollectionLogTest : public LogTest {};

TEST_F(CollectionLogTest, IsNotFoundWhereThereIsNoneAndMadeWhereThatIsAsked) {
  EXPECT_FALSE(HasLog(folder_.path()));
  const auto missing = CollectionLog::Open(folder_.path(), SmallLogFormat(), CollectionLog::Mode::kMustExist);
  EXPECT_TRUE(absl::IsNotFound(missing.status())) << missing.status();
  Create();
  EXPECT_TRUE(HasLog(folder_.path()));
  EXPECT_EQ(log_->last_sequence(), 0);
  EXPECT_EQ(log_->first_sequence(), 0);
  Open();
  EXPECT_EQ(log_->last_sequence(), 0);
}

TEST_F(CollectionLogTest, ReadsWhatWasAppendedBeforeAndAfterItIsOpenedAgain) {
  Create();
  ASSERT_TRUE(AppendMarked(*log_, 1, 200).ok());
  ASSERT_TRUE(AppendMarked(*log_, 40, 200).ok());
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(log_->last_sequence(), 41 + round);
    const auto read = ReadMarked(*log_, 0, 200);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, 41 + round);
    EXPECT_EQ(ReadMarked(*log_, 30, 200).value_or(0), 41 + round);
    Open();
    ASSERT_TRUE(AppendMarked(*log_, 1, 200).ok());
  }
}

TEST_F(CollectionLogTest, BeginsBehindTheWritesThatShardsHoldAlready) {
  auto opened = CollectionLog::Open(folder_.path(), SmallLogFormat(), CollectionLog::Mode::kCreate, 40);
  ASSERT_TRUE(opened.ok()) << opened.status();
  log_ = *std::move(opened);
  EXPECT_EQ(log_->first_sequence(), 40);
  EXPECT_EQ(log_->last_sequence(), 40);
  EXPECT_TRUE(absl::IsInvalidArgument(log_->Append({MarkedRecord(1, 2).View()})));
  ASSERT_TRUE(AppendMarked(*log_, 5, 2).ok());
  Open();
  EXPECT_EQ(log_->first_sequence(), 40);
  EXPECT_EQ(ReadMarked(*log_, 40, 2).value_or(0), 45);
  // The first sequence applies only to a new log. An existing log keeps its own.
  log_.reset();
  opened = CollectionLog::Open(folder_.path(), SmallLogFormat(), CollectionLog::Mode::kCreate, 60);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->last_sequence(), 45);
}

TEST_F(CollectionLogTest, StopsReadingWithTheVisitorsError) {
  Create();
  ASSERT_TRUE(AppendMarked(*log_, 5, 2).ok());
  int visited = 0;
  const absl::Status status = log_->Read(0, 5, [&](const LogRecord& record) {
    ++visited;
    return record.sequence == 3 ? absl::CancelledError("enough") : absl::OkStatus();
  });
  EXPECT_EQ(status, absl::CancelledError("enough"));
  EXPECT_EQ(visited, 3);
}

TEST_F(CollectionLogTest, RefusesSequencesThatDoNotFollowAndRowsThatAreNotTheTokens) {
  Create();
  ASSERT_TRUE(AppendMarked(*log_, 1, 2).ok());
  const MarkedRecord gap(3, 2);
  EXPECT_TRUE(absl::IsInvalidArgument(log_->Append({gap.View()})));
  const MarkedRecord second(2, 2);
  LogRecord short_rows = second.View();
  short_rows.rows.remove_suffix(1);
  EXPECT_TRUE(absl::IsInvalidArgument(log_->Append({short_rows})));
  EXPECT_TRUE(log_->Append({second.View()}).ok());
}

TEST_F(CollectionLogTest, RemembersTheVersionOfTheLastWriteOfAnId) {
  Create();
  const auto write = [&](uint64_t sequence, uint64_t version, LogRecord::Kind kind) {
    const MarkedRecord record(1, 1);
    LogRecord view = record.View();
    view.sequence = sequence;
    view.version = version;
    view.kind = kind;
    return log_->Append({view});
  };
  ASSERT_TRUE(write(1, 5, LogRecord::Kind::kUpsert).ok());
  EXPECT_EQ(log_->VersionOf("id1").value_or(99), 5);
  EXPECT_EQ(log_->VersionOf("id2").value_or(99), 0);
  ASSERT_TRUE(write(2, 9, LogRecord::Kind::kDelete).ok());
  Open();
  EXPECT_EQ(log_->VersionOf("id1").value_or(99), 9);
  ASSERT_TRUE(log_->Truncate(2, 0).ok());
  EXPECT_EQ(log_->VersionOf("id1").value_or(99), 9);
  ASSERT_TRUE(write(3, 0, LogRecord::Kind::kUpsert).ok());
  EXPECT_EQ(log_->VersionOf("id1").value_or(99), 0);
}

TEST_F(CollectionLogTest, ReadsWhatIsBehindASequenceUntilItWasDropped) {
  Create();
  const auto write = [&](uint64_t sequence, uint64_t version) {
    const MarkedRecord record(sequence, 1);
    LogRecord view = record.View();
    view.sequence = sequence;
    view.version = version;
    return log_->Append({view});
  };
  std::vector<uint64_t> seen;
  const auto note = [&](const LogRecord& record) {
    seen.push_back(record.sequence);
    return absl::OkStatus();
  };
  ASSERT_TRUE(write(1, 0).ok());
  ASSERT_TRUE(log_->ReadBehind(0, note).ok());
  EXPECT_THAT(seen, IsEmpty()) << "no id has had a version";
  ASSERT_TRUE(write(2, 7).ok());
  ASSERT_TRUE(write(3, 0).ok());
  ASSERT_TRUE(log_->ReadBehind(1, note).ok());
  EXPECT_THAT(seen, ElementsAre(2, 3));
  ASSERT_TRUE(log_->ReadBehind(3, note).ok());
  EXPECT_EQ(seen.size(), 2);
  ASSERT_TRUE(log_->Truncate(3, 0).ok());
  EXPECT_TRUE(absl::IsDataLoss(log_->ReadBehind(1, note)));
  EXPECT_TRUE(log_->ReadBehind(3, note).ok());
  EXPECT_EQ(log_->ReadBehind(2, note).code(), absl::StatusCode::kDataLoss);
}

TEST_F(CollectionLogTest, FollowsOneStreamAndKeepsThat) {
  Create();
  EXPECT_EQ(log_->stream(), std::nullopt);
  const LogStream stream{"maxsim-docs", 1'700'000'000'000'000'001};
  ASSERT_TRUE(log_->Follow(stream).ok());
  ASSERT_TRUE(log_->Follow(stream).ok());
  LogRecord skipped;
  skipped.kind = LogRecord::Kind::kSkipped;
  skipped.sequence = 1;
  skipped.skip_reason = SkipReason::kStale;
  ASSERT_TRUE(log_->Append({skipped}).ok());
  Open();
  EXPECT_EQ(log_->stream(), stream);
  EXPECT_EQ(log_->last_sequence(), 1);
  int num_read = 0;
  ASSERT_TRUE(log_->Read(0, 1,
                         [&](const LogRecord& record) {
                           EXPECT_EQ(record.kind, LogRecord::Kind::kSkipped);
                           EXPECT_EQ(record.skip_reason, SkipReason::kStale);
                           ++num_read;
                           return absl::OkStatus();
                         })
                  .ok());
  EXPECT_EQ(num_read, 1);
  const absl::Status other = log_->Follow({"maxsim-docs", 1'700'000'001'000'000'000});
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  EXPECT_THAT(MessageOf(other), AllOf(HasSubstr("stream maxsim-docs of 2023-11-14T22:13:20.000000001Z"),
                                      HasSubstr("2023-11-14T22:13:21Z")));
  const TemporaryFolder copy;
  ASSERT_EQ(log_->Checkpoint(copy.path()).value_or(0), 1);
  const auto copied = CollectionLog::Open(copy.path(), SmallLogFormat(), CollectionLog::Mode::kMustExist);
  ASSERT_TRUE(copied.ok()) << copied.status();
  EXPECT_EQ((*copied)->stream(), stream);
}

TEST_F(CollectionLogTest, FollowsNoStreamOnceItHasWritesOfItsOwn) {
  Create();
  ASSERT_TRUE(AppendMarked(*log_, 3, 1).ok());
  const absl::Status status = log_->Follow({"maxsim-docs", 1});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(MessageOf(status), HasSubstr("up to sequence 3"));
  Open();
  EXPECT_EQ(log_->stream(), std::nullopt);
}

TEST_F(CollectionLogTest, LeavesTheVersionOfAnIdAloneWhereAWriteOfItIsSkipped) {
  Create();
  const auto marked = MarkedRecord(3, 1);
  LogRecord view = marked.View();
  view.sequence = 1;
  LogRecord skipped;
  skipped.kind = LogRecord::Kind::kSkipped;
  skipped.sequence = 2;
  ASSERT_TRUE(log_->Append({view, skipped}).ok());
  EXPECT_EQ(log_->VersionOf("id3").value_or(99), 3);
  EXPECT_EQ(log_->VersionOf("").value_or(99), 0);
}

TEST_F(CollectionLogTest, OpensOnceAtATimeAndSaysWhoHasIt) {
  Create();
  const auto second = CollectionLog::Open(folder_.path(), SmallLogFormat(), CollectionLog::Mode::kMustExist);
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status())) << second.status();
  EXPECT_THAT(MessageOf(second.status()),
              AllOf(HasSubstr(folder_.path()), HasSubstr("is open in this process already")));
  log_.reset();
  Open();
}

TEST_F(CollectionLogTest, OfAnotherFormatIsRefusedAndNamed) {
  Create();
  log_.reset();
  LogFormat other = SmallLogFormat();
  other.storage = ScalarType::kI8;
  other.rotation_seed = 17;
  const auto opened = CollectionLog::Open(folder_.path(), other, CollectionLog::Mode::kCreate);
  EXPECT_TRUE(absl::IsFailedPrecondition(opened.status())) << opened.status();
  EXPECT_THAT(MessageOf(opened.status()),
              AllOf(HasSubstr("string ids, f16, dimension 8"), HasSubstr("i8, dimension 8, rotation seed 17")));
}

}  // namespace
}  // namespace maxsim::collection
