#include "collection/log/collection_log.h"

#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <optional>
#include <string>

#include "absl/time/clock.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/collection/log/log_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CollectionLogTest : public ::testing::Test {
 protected:
  void Open(CollectionLog::Mode mode = CollectionLog::Mode::kMustExist) {
    log_.reset();
    auto opened = CollectionLog::Open(folder_.path(), SmallLogFormat(), mode);
    ASSERT_TRUE(opened.ok()) << opened.status();
    log_ = *std::move(opened);
  }
  void Create() { Open(CollectionLog::Mode::kCreate); }
  std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

  TemporaryFolder folder_;
  std::unique_ptr<CollectionLog> log_;
};

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
  // It is only for a log that is made.
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

TEST_F(CollectionLogTest, GivesDiskSpaceBackWhenItIsTruncated) {
  Create();
  constexpr int32_t kTokens = 60'000;  // of 16 bytes: nearly a megabyte
  for (int batch = 0; batch < 20; ++batch) ASSERT_TRUE(AppendMarked(*log_, 10, kTokens).ok());
  const uint64_t before = log_->num_bytes();
  EXPECT_GT(before, 140'000'000);
  ASSERT_TRUE(log_->Truncate(195, 0).ok());
  ASSERT_TRUE(log_->ReclaimSpace().ok());
  // What is left lies in one blob file, which is as large as a buffer. The others go in the background.
  EXPECT_TRUE(test::Eventually([&] { return log_->num_bytes() < 80'000'000; })) << log_->num_bytes();
  EXPECT_EQ(log_->first_sequence(), 195);
  EXPECT_EQ(ReadMarked(*log_, 195, kTokens).value_or(0), 200);
  const auto dropped = ReadMarked(*log_, 190, kTokens);
  EXPECT_TRUE(absl::IsDataLoss(dropped.status())) << dropped.status();
  EXPECT_THAT(MessageOf(dropped.status()), HasSubstr("sequence 191 was dropped"));
  ASSERT_TRUE(log_->Truncate(200, 0).ok());
  ASSERT_TRUE(log_->ReclaimSpace().ok());
  EXPECT_LT(log_->num_bytes(), 5'000'000);
  EXPECT_TRUE(absl::IsInvalidArgument(log_->Truncate(201, 0)));
  Open();
  EXPECT_EQ(log_->first_sequence(), 200);
  EXPECT_EQ(log_->last_sequence(), 200);
  ASSERT_TRUE(AppendMarked(*log_, 1, 1).ok());
  EXPECT_EQ(log_->last_sequence(), 201);
}

Manifest TwoShards(int64_t generation) {
  Manifest manifest;
  manifest.name = "x";
  manifest.generation = generation;
  manifest.dim = 8;
  for (const char digit : {'a', 'b'}) {
    manifest.shards.push_back({.file = Cat(generation, "-", std::string(1, digit)),
                               .num_documents = 10,
                               .num_tokens = 10,
                               .num_bytes = 1,
                               .checksum = Cat("xxh3-128:", std::string(31, digit), generation % 10)});
  }
  return manifest;
}

TEST_F(CollectionLogTest, KeepsTombstonesOfEachGenerationUntilItIsTruncated) {
  Create();
  const Manifest second = TwoShards(2);
  const Manifest third = TwoShards(3);
  ASSERT_TRUE(log_->PutTombstones(second, {{}, {0, 9}}).ok());
  ASSERT_TRUE(log_->PutTombstones(third, {{4}, {}}).ok());
  Open();
  EXPECT_THAT(*log_->TombstonesOf(second), ElementsAre(IsEmpty(), ElementsAre(0, 9)));
  EXPECT_THAT(*log_->TombstonesOf(third), ElementsAre(ElementsAre(4), IsEmpty()));
  EXPECT_THAT(*log_->TombstonesOf(TwoShards(4)), ElementsAre(IsEmpty(), IsEmpty()));
  ASSERT_TRUE(log_->Truncate(0, 3).ok());
  EXPECT_THAT(*log_->TombstonesOf(second), ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_THAT(*log_->TombstonesOf(third), ElementsAre(ElementsAre(4), IsEmpty()));
}

TEST_F(CollectionLogTest, DropsTombstonesOfGenerationsThatWereNeverPublished) {
  Create();
  ASSERT_TRUE(log_->PutTombstones(TwoShards(3), {{1}, {2}}).ok());
  ASSERT_TRUE(log_->PutTombstones(TwoShards(2), {{}, {7}}).ok());
  EXPECT_THAT(*log_->TombstonesOf(TwoShards(3)), ElementsAre(IsEmpty(), IsEmpty()));
  // Another build has taken the number: its shards have other checksums.
  Manifest rebuilt = TwoShards(2);
  rebuilt.shards[1].checksum[10] = 'c';
  EXPECT_THAT(*log_->TombstonesOf(rebuilt), ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_THAT(*log_->TombstonesOf(TwoShards(2)), ElementsAre(IsEmpty(), ElementsAre(7)));
}

TEST_F(CollectionLogTest, DropsTombstonesOfAllGenerationsButThePublishedOneWhenItIsTruncated) {
  Create();
  for (const int64_t generation : {2, 3, 4}) {
    ASSERT_TRUE(log_->PutTombstones(TwoShards(generation), {{1}, {generation == 3 ? 2U : 5U}}).ok());
  }
  ASSERT_TRUE(log_->Truncate(0, 3).ok());
  ASSERT_TRUE(log_->Truncate(0, 3).ok()) << "where there is nothing to drop";
  Open();
  EXPECT_THAT(*log_->TombstonesOf(TwoShards(2)), ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_THAT(*log_->TombstonesOf(TwoShards(3)), ElementsAre(ElementsAre(1), ElementsAre(2)));
  EXPECT_THAT(*log_->TombstonesOf(TwoShards(4)), ElementsAre(IsEmpty(), IsEmpty()));
}

TEST_F(CollectionLogTest, KeepsTombstonesFromABuildOfTheSameShardsWithOtherWrites) {
  Create();
  Manifest compacted = TwoShards(2);
  compacted.log_sequence = 7;
  ASSERT_TRUE(log_->PutTombstones(compacted, {{1}, {}}).ok());
  EXPECT_THAT(*log_->TombstonesOf(compacted), ElementsAre(ElementsAre(1), IsEmpty()));
  Manifest built = compacted;
  built.log_sequence = 5;
  EXPECT_THAT(*log_->TombstonesOf(built), ElementsAre(IsEmpty(), IsEmpty()));
}

TEST_F(CollectionLogTest, RefusesTombstonesThatShardsDoNotHave) {
  Create();
  EXPECT_TRUE(absl::IsInvalidArgument(log_->PutTombstones(TwoShards(2), {{}})));
  EXPECT_TRUE(absl::IsInvalidArgument(log_->PutTombstones(TwoShards(2), {{10}, {}})));
  EXPECT_TRUE(absl::IsInvalidArgument(log_->PutTombstones(TwoShards(2), {{3, 3}, {}})));
}

TEST_F(CollectionLogTest, CopiesItselfWhileItIsAppendedTo) {
  Create();
  ASSERT_TRUE(AppendMarked(*log_, 30, 100).ok());
  ASSERT_TRUE(log_->Truncate(10, 0).ok());
  ASSERT_TRUE(log_->PutTombstones(TwoShards(2), {{}, {7}}).ok());
  TemporaryFolder copies;
  const std::string target = copies.Path("copy");
  EXPECT_EQ(log_->Checkpoint(target).value_or(0), 30);
  EXPECT_TRUE(absl::IsFailedPrecondition(log_->Checkpoint(target).status()));
  ASSERT_TRUE(AppendMarked(*log_, 5, 100).ok());
  auto copy = CollectionLog::Open(target, SmallLogFormat(), CollectionLog::Mode::kMustExist);
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ((*copy)->first_sequence(), 10);
  EXPECT_EQ(ReadMarked(**copy, 10, 100).value_or(0), 30);
  EXPECT_EQ((*copy)->VersionOf("id27").value_or(0), 27);
  EXPECT_THAT(*(*copy)->TombstonesOf(TwoShards(2)), ElementsAre(IsEmpty(), ElementsAre(7)));
  ASSERT_TRUE(AppendMarked(**copy, 1, 100).ok());
  EXPECT_EQ(ReadMarked(*log_, 10, 100).value_or(0), 35);
}

// Lets no file of this process grow beyond a size while it lives, as a full disk would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t num_bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit lowered{num_bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &lowered);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(CollectionLogTest, IsExhaustedByAFullDiskAndGoesOnAfterRecovery) {
  Create();
  ASSERT_TRUE(AppendMarked(*log_, 10, 100).ok());
  {
    const FileSizeLimit limit(200'000);
    absl::Status status;
    int appended = 0;
    for (; appended < 100 && status.ok(); ++appended) status = AppendMarked(*log_, 10, 100);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_GT(appended, 1);
    EXPECT_TRUE(absl::IsUnavailable(AppendMarked(*log_, 1, 100)));
  }
  const uint64_t acknowledged = log_->last_sequence();
  EXPECT_EQ(ReadMarked(*log_, 0, 100).value_or(0), acknowledged);
  const absl::Status recovered = log_->Recover();
  ASSERT_TRUE(recovered.ok()) << recovered;
  EXPECT_GE(log_->last_sequence(), acknowledged);
  EXPECT_LE(log_->last_sequence(), acknowledged + 10);
  ASSERT_TRUE(AppendMarked(*log_, 10, 100).ok());
  EXPECT_EQ(ReadMarked(*log_, 0, 100).value_or(0), log_->last_sequence());
  Open();
  EXPECT_EQ(ReadMarked(*log_, 0, 100).value_or(0), log_->last_sequence());
}

// The log reserves as much disk space as the next start needs: the size of the data that only the write-ahead log
// holds.
TEST_F(CollectionLogTest, KeepsRoomOnTheDiskForTheNextStart) {
  const std::string path = folder_.Path("log/reserve");
  uint64_t before = 0;
  {
    auto log = CollectionLog::Open(folder_.path(), SmallLogFormat(), CollectionLog::Mode::kCreate);
    ASSERT_TRUE(log.ok()) << log.status();
    before = std::filesystem::file_size(path);
    EXPECT_GE(before, uint64_t{1} << 20);
    for (int idx = 0; idx < 12; ++idx) ASSERT_TRUE(AppendMarked(**log, 1, 65536).ok());  // 1 MiB each
    EXPECT_GE(std::filesystem::file_size(path), uint64_t{10} << 20);
  }
  EXPECT_GE(std::filesystem::file_size(path), uint64_t{10} << 20) << "while no server has it open";
  auto log = CollectionLog::Open(folder_.path(), SmallLogFormat(), CollectionLog::Mode::kMustExist);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(std::filesystem::file_size(path), before);
}

TEST_F(CollectionLogTest, IsReadAndNotWrittenWhileItCannotBeRecovered) {
  Create();
  ASSERT_TRUE(AppendMarked(*log_, 10, 1000).ok());
  {
    const FileSizeLimit limit(1000);
    EXPECT_FALSE(AppendMarked(*log_, 1, 1000).ok());
    const absl::Status recovered = log_->Recover();
    EXPECT_TRUE(absl::IsResourceExhausted(recovered)) << recovered;
    EXPECT_TRUE(absl::IsUnavailable(AppendMarked(*log_, 1, 1000)));
    EXPECT_GE(ReadMarked(*log_, 0, 1000).value_or(0), 10);
    EXPECT_TRUE(log_->VersionOf("id1").ok());
  }
  const absl::Status recovered = log_->Recover();
  ASSERT_TRUE(recovered.ok()) << recovered;
  EXPECT_GE(ReadMarked(*log_, 0, 1000).value_or(0), 10);
}

}  // namespace
}  // namespace maxsim::collection
