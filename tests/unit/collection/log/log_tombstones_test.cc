// The tombstones of generations in a log.
#include <string>

#include "collection/log/collection_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/unit/collection/log/log_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LogTombstonesTest : public LogTest {};

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

TEST_F(LogTombstonesTest, KeepsTombstonesOfEachGenerationUntilItIsTruncated) {
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

TEST_F(LogTombstonesTest, DropsTombstonesOfGenerationsThatWereNeverPublished) {
  Create();
  ASSERT_TRUE(log_->PutTombstones(TwoShards(3), {{1}, {2}}).ok());
  ASSERT_TRUE(log_->PutTombstones(TwoShards(2), {{}, {7}}).ok());
  EXPECT_THAT(*log_->TombstonesOf(TwoShards(3)), ElementsAre(IsEmpty(), IsEmpty()));
  // Another build published the same generation number with other shards (other checksums). The stored tombstones
  // (deleted documents) must not apply to those shards.
  Manifest rebuilt = TwoShards(2);
  rebuilt.shards[1].checksum[10] = 'c';
  EXPECT_THAT(*log_->TombstonesOf(rebuilt), ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_THAT(*log_->TombstonesOf(TwoShards(2)), ElementsAre(IsEmpty(), ElementsAre(7)));
}

TEST_F(LogTombstonesTest, DropsTombstonesOfAllGenerationsButThePublishedOneWhenItIsTruncated) {
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

TEST_F(LogTombstonesTest, KeepsTombstonesFromABuildOfTheSameShardsWithOtherWrites) {
  Create();
  Manifest compacted = TwoShards(2);
  compacted.log_sequence = 7;
  ASSERT_TRUE(log_->PutTombstones(compacted, {{1}, {}}).ok());
  EXPECT_THAT(*log_->TombstonesOf(compacted), ElementsAre(ElementsAre(1), IsEmpty()));
  Manifest built = compacted;
  built.log_sequence = 5;
  EXPECT_THAT(*log_->TombstonesOf(built), ElementsAre(IsEmpty(), IsEmpty()));
}

TEST_F(LogTombstonesTest, RefusesTombstonesThatShardsDoNotHave) {
  Create();
  EXPECT_TRUE(absl::IsInvalidArgument(log_->PutTombstones(TwoShards(2), {{}})));
  EXPECT_TRUE(absl::IsInvalidArgument(log_->PutTombstones(TwoShards(2), {{10}, {}})));
  EXPECT_TRUE(absl::IsInvalidArgument(log_->PutTombstones(TwoShards(2), {{3, 3}, {}})));
}

TEST_F(LogTombstonesTest, CopiesItselfWhileItIsAppendedTo) {
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

}  // namespace
}  // namespace maxsim::collection
