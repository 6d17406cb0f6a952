// Tests which replicas a view leaves out, and that it says so.
#include <string>
#include <vector>

#include "base/monotonic_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/cluster/groups/view.h"
#include "server/cluster/router_info.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two groups of two replicas.
class LeftOutTest : public testing::Test {
 protected:
  LeftOutTest() : groups_(MakeGroups(2)) {
    for (const std::shared_ptr<Group>& group : groups_) {
      Replicas replicas = group->replicas();
      replicas.push_back(MakeReplica(absl::StrCat("localhost:1", group->name().substr(1))));
      group->SetReplicas(replicas);
    }
    for (size_t group : {0, 1}) {
      for (size_t replica : {0, 1}) SayOf(group, replica, 1);
    }
  }

  Replica& replica(size_t group, size_t index) { return *groups_[group]->replicas()[index]; }

  v1::CollectionInfo Part(size_t group, uint64_t generation) const {
    return InfoOf("c", generation, collection::PartitionOf(static_cast<int32_t>(group), 2));
  }

  void SayOf(size_t group, size_t index, uint64_t generation, const std::string& fingerprint = "") {
    v1::CollectionInfo info = Part(group, generation);
    info.set_fingerprint(fingerprint);
    Say(replica(group, index), {info});
  }

  // Reports a sequence of the stream, in the answer to a poll that began at `asked`.
  void SaySequence(size_t group, size_t index, uint64_t sequence, absl::Time asked) {
    auto info = std::make_shared<v1::GetInfoResponse>();
    v1::CollectionInfo& part = *info->add_collections();
    part = Part(group, 1);
    part.mutable_live()->set_log(kStreamLog);
    part.mutable_live()->set_sequence(sequence);
    replica(group, index).SetInfo(std::move(info), asked);
    lags_.Note("c", sequence, asked + absl::Milliseconds(1));
  }

  const CollectionView& Look() {
    view_ = View::Of(groups_, view_.get(), &lags_);
    return *view_->collections().at("c");
  }

  v1::ReplicaState StateOf(size_t group, size_t index) { return view_->StateOf(replica(group, index), MonotonicNow()); }

  std::string ReasonOf(size_t group, size_t index) { return view_->ReportsOf(replica(group, index)).at(0).left_out(); }

  const absl::Time start_ = absl::UnixEpoch() + absl::Hours(1);
  LagTracker lags_{{.writes = 100, .time = absl::Seconds(10)}};
  const std::vector<std::shared_ptr<Group>> groups_;
  std::shared_ptr<const View> view_;
};

TEST_F(LeftOutTest, ACollectionIsReadyIfEveryGroupHasTheGeneration) {
  EXPECT_EQ(Look().info.state(), v1::COLLECTION_STATE_READY);
  SayOf(0, 1, 2);
  EXPECT_EQ(Look().info.state(), v1::COLLECTION_STATE_READY);
  EXPECT_EQ(Look().info.error(), "");
  EXPECT_THAT(Look().missing_groups, IsEmpty());
  EXPECT_EQ(DescribeLosses(*view_),
            "replica localhost:10 of group g0: left out for collection c: it has generation 2, "
            "but requests name 1\n");
}

TEST_F(LeftOutTest, AReplicaOfAnotherGenerationIsNotReady) {
  SayOf(0, 1, 2);
  Look();
  EXPECT_EQ(StateOf(0, 0), v1::REPLICA_STATE_READY);
  EXPECT_EQ(StateOf(0, 1), v1::REPLICA_STATE_LEFT_OUT);
  EXPECT_THAT(ReasonOf(0, 1), HasSubstr("it has generation 2, but requests name 1"));
  v1::GetInfoResponse info;
  AddGroups(*view_, MonotonicNow(), info);
  EXPECT_EQ(info.groups(0).replicas(0).error(), "");
  EXPECT_EQ(info.groups(0).replicas(0).collections(0).generation(), 1);
  EXPECT_THAT(info.groups(0).replicas(1).error(), HasSubstr("left out for collection c: it has generation 2"));
  EXPECT_EQ(info.groups(0).replicas(1).collections(0).generation(), 2);
}

// A new generation (version) was published for one group only, and all servers were restarted one by one.
TEST_F(LeftOutTest, ACollectionIsPartialIfNoGenerationIsEverywhere) {
  for (size_t index : {0, 1}) SayOf(0, index, 2);
  const CollectionView& collection = Look();
  EXPECT_TRUE(collection.status.ok()) << "other groups still answer";
  EXPECT_EQ(collection.generation, 2);
  EXPECT_EQ(collection.info.state(), v1::COLLECTION_STATE_PARTIAL);
  EXPECT_EQ(collection.info.error(), "group g1 has generation 1 and not 2");
  EXPECT_THAT(collection.missing_groups, ElementsAre("g1"));
  for (size_t index : {0, 1}) EXPECT_EQ(StateOf(1, index), v1::REPLICA_STATE_LEFT_OUT);
  EXPECT_THAT(DescribeLosses(*view_), HasSubstr("collection c lacks documents: group g1 has generation 1 and not 2\n"));
  SayOf(1, 0, 2);
  EXPECT_EQ(Look().info.state(), v1::COLLECTION_STATE_READY);
}

TEST_F(LeftOutTest, ACollectionIsPartialWhileAGroupDoesNotAnswer) {
  Look();
  for (size_t index : {0, 1}) replica(1, index).SetPollError(absl::UnavailableError("away"));
  EXPECT_EQ(Look().info.state(), v1::COLLECTION_STATE_PARTIAL);
  EXPECT_EQ(Look().info.error(), "group g1 does not answer");
  for (size_t index : {0, 1}) Say(replica(1, index), {}, /*loading=*/true);
  EXPECT_EQ(Look().info.error(), "group g1 does not answer");
  for (size_t index : {0, 1}) Say(replica(1, index), {});
  EXPECT_EQ(Look().info.error(), "group g1 has not loaded it");
  SayOf(1, 1, 1);
  EXPECT_EQ(Look().info.state(), v1::COLLECTION_STATE_READY);
}

TEST_F(LeftOutTest, AnotherBuildOfTheSameGenerationIsLeftOut) {
  for (size_t index : {0, 1}) SayOf(1, index, 1, "one");
  Look();
  SayOf(1, 1, 1, "two");
  const CollectionView& collection = Look();
  ASSERT_TRUE(collection.status.ok()) << collection.status;
  EXPECT_THAT(collection.parts[1].target.replicas, ElementsAre(groups_[1]->replicas()[0]));
  EXPECT_EQ(StateOf(1, 1), v1::REPLICA_STATE_LEFT_OUT);
  EXPECT_THAT(ReasonOf(1, 1), HasSubstr("different builds of generation 1: the fingerprint is one on one and two on"));
  EXPECT_THAT(collection.info.error(), HasSubstr("different builds"));
  // When the whole group has the other build, that one is right.
  SayOf(1, 0, 1, "two");
  EXPECT_EQ(Look().parts[1].target.replicas.size(), 2);
  EXPECT_EQ(Look().info.error(), "");
}

TEST_F(LeftOutTest, ARouterThatFindsTwoBuildsAtItsStartServesNeither) {
  SayOf(1, 0, 1, "one");
  SayOf(1, 1, 1, "two");
  EXPECT_TRUE(absl::IsUnavailable(Look().status));
  EXPECT_THAT(Look().info.error(), HasSubstr("servers of group g1 have different builds of generation 1"));
  EXPECT_THAT(DescribeLosses(*view_), HasSubstr("collection c is not served: "));
}

TEST_F(LeftOutTest, ServersThatReportNoFingerprintAreNotCompared) {
  SayOf(1, 0, 1, "one");
  EXPECT_TRUE(Look().status.ok());
  EXPECT_EQ(Look().parts[1].target.replicas.size(), 2);
  SayOf(0, 0, 2, "other");
  SayOf(1, 0, 2, "three");
  EXPECT_TRUE(Look().status.ok()) << "the next generation has another fingerprint: " << Look().status;
}

TEST_F(LeftOutTest, AReplicaThatFallsBehindGetsNoRequestsUntilItHasCaughtUp) {
  for (size_t group : {0, 1}) {
    for (size_t index : {0, 1}) SaySequence(group, index, 1000, start_);
  }
  EXPECT_EQ(Look().parts[0].target.replicas.size(), 2);
  // One replica no longer follows.
  for (int second = 1; second <= 10; ++second) {
    const absl::Time now = start_ + absl::Seconds(second);
    for (size_t index : {0, 1}) SaySequence(1, index, 1000 + static_cast<uint64_t>(second), now);
    SaySequence(0, 0, 1000 + static_cast<uint64_t>(second), now);
    SaySequence(0, 1, 1000, now);
    ASSERT_EQ(Look().parts[0].target.replicas.size(), 2) << second;
  }
  SaySequence(0, 1, 1000, start_ + absl::Seconds(12));
  EXPECT_THAT(Look().parts[0].target.replicas, ElementsAre(groups_[0]->replicas()[0]));
  EXPECT_EQ(Look().info.state(), v1::COLLECTION_STATE_READY);
  EXPECT_EQ(StateOf(0, 1), v1::REPLICA_STATE_LEFT_OUT);
  EXPECT_THAT(ReasonOf(0, 1), HasSubstr("cluster.max_lag_seconds"));
  EXPECT_EQ(view_->ReportsOf(replica(0, 1)).at(0).lag_writes(), 10);
  EXPECT_GT(view_->ReportsOf(replica(0, 1)).at(0).lag_seconds(), 10);
  EXPECT_EQ(view_->ReportsOf(replica(0, 0)).at(0).lag_writes(), 0);
  SaySequence(0, 1, 1010, start_ + absl::Seconds(13));
  EXPECT_EQ(Look().parts[0].target.replicas.size(), 2);
  EXPECT_EQ(StateOf(0, 1), v1::REPLICA_STATE_READY);
}

TEST_F(LeftOutTest, AReplicaThatIsManyWritesBehindGetsNoRequests) {
  for (size_t group : {0, 1}) {
    for (size_t index : {0, 1}) SaySequence(group, index, 1101, start_);
  }
  SaySequence(0, 1, 1001, start_ + absl::Seconds(1));
  EXPECT_EQ(Look().parts[0].target.replicas.size(), 2);
  SaySequence(0, 1, 1000, start_ + absl::Seconds(1));
  EXPECT_THAT(Look().parts[0].target.replicas, ElementsAre(groups_[0]->replicas()[0]));
  EXPECT_THAT(ReasonOf(0, 1), HasSubstr("101 writes behind, but the limit is 100 (cluster.max_lag_writes)"));
}

// NATS is away: all replicas of a group may be behind those of another group.
TEST_F(LeftOutTest, IfAllReplicasOfAGroupAreBehindTheMostAdvancedOneServes) {
  for (size_t index : {0, 1}) SaySequence(1, index, 5000, start_);
  SaySequence(0, 0, 1000, start_ + absl::Seconds(1));
  SaySequence(0, 1, 999, start_ + absl::Seconds(1));
  EXPECT_THAT(Look().parts[0].target.replicas, ElementsAre(groups_[0]->replicas()[0]));
  EXPECT_EQ(Look().info.state(), v1::COLLECTION_STATE_READY);
}

TEST_F(LeftOutTest, CollectionsWithLogsOfTheirOwnHaveNoLag) {
  for (size_t index : {0, 1}) {
    v1::CollectionInfo part = Part(0, 1);
    part.mutable_live()->set_log("local");
    part.mutable_live()->set_sequence(index * 1'000'000);
    Say(replica(0, index), {part});
    part = Part(1, 1);
    part.mutable_live()->set_log("local");
    Say(replica(1, index), {part});
  }
  EXPECT_EQ(Look().parts[0].target.replicas.size(), 2);
  EXPECT_EQ(view_->ReportsOf(replica(0, 0)).at(0).lag_writes(), 0);
}

}  // namespace
}  // namespace maxsim::cluster
