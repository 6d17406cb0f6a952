#include "server/cluster/groups/view.h"

#include "base/monotonic_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::HasSubstr;

std::string ErrorOf(const std::vector<std::shared_ptr<Group>>& groups) {
  return std::string(View::Of(groups)->Find("c").status().message());
}

// Adds a replica to a group.
std::shared_ptr<Replica> AddReplica(Group& group, const std::string& target) {
  Replicas replicas = group.replicas();
  replicas.push_back(MakeReplica(target));
  group.SetReplicas(replicas);
  return replicas.back();
}

TEST(ViewTest, EachSlotIsOfTheGroupThatHoldsIt) {
  const auto groups = MakeGroups(3);
  const auto collection = View::Of(groups)->Find("c");
  ASSERT_TRUE(collection.ok()) << collection.status();
  EXPECT_EQ((*collection)->generation, 1);
  EXPECT_EQ((*collection)->info.num_documents(), 30);
  EXPECT_FALSE((*collection)->info.has_partition());
  for (int32_t slot = 0; slot < collection::kNumSlots; ++slot) {
    const CollectionView::Part& part = (*collection)->PartOf(slot);
    EXPECT_TRUE(part.slots.contains(slot));
    EXPECT_EQ(part.target.replicas.size(), 1);
  }
  EXPECT_EQ((*collection)->PartOf(0).target.group, groups[0]);
  EXPECT_EQ((*collection)->PartOf(1365).target.group, groups[1]);
  EXPECT_EQ((*collection)->PartOf(4095).target.group, groups[2]);
}

TEST(ViewTest, AWholeCollectionIsOneGroups) {
  const auto groups = MakeGroups(2);
  Say(*groups[0]->replicas()[0], {InfoOf("whole", 4, {})});
  Say(*groups[1]->replicas()[0], {});
  const auto collection = View::Of(groups)->Find("whole");
  ASSERT_TRUE(collection.ok()) << collection.status();
  EXPECT_EQ((*collection)->parts.size(), 1);
  EXPECT_EQ((*collection)->PartOf(4000).target.group, groups[0]);
}

TEST(ViewTest, AnUnknownNameIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(View::Of(MakeGroups(2))->Find("other").status()));
}

TEST(ViewTest, ANameThatASilentGroupMayHaveIsUnavailable) {
  const auto groups = MakeGroups(2);
  groups[1]->SetReplicas({MakeReplica("localhost:9")});
  const absl::Status silent = View::Of(groups)->Find("other").status();
  EXPECT_TRUE(absl::IsUnavailable(silent)) << silent;
  EXPECT_THAT(std::string(silent.message()), HasSubstr("group g1 has not said what it has"));
  Say(*groups[1]->replicas()[0], {});
  EXPECT_TRUE(absl::IsNotFound(View::Of(groups)->Find("other").status()));
}

TEST(ViewTest, SlotsInTwoGroupsOrInNoneAreNotServed) {
  auto groups = MakeGroups(3);
  Say(*groups[1]->replicas()[0], {InfoOf("c", 1, {1300, 2730})});
  EXPECT_THAT(ErrorOf(groups), HasSubstr("group g0 and group g1 both hold slot 1300"));
  groups = MakeGroups(3);
  Say(*groups[1]->replicas()[0], {InfoOf("c", 1, {1400, 2730})});
  EXPECT_THAT(ErrorOf(groups), HasSubstr("no group has said that it holds slot 1365"));
}

TEST(ViewTest, SlotsThatNobodyHoldsAreThoseOfAGroupThatHasNeverAnswered) {
  auto groups = MakeGroups(3);
  groups[1]->SetReplicas({MakeReplica("localhost:9")});
  const auto collection = View::Of(groups)->Find("c");
  ASSERT_TRUE(collection.ok()) << collection.status();
  EXPECT_EQ((*collection)->PartOf(1365).target.group, groups[1]);
  EXPECT_TRUE((*collection)->PartOf(1365).target.replicas.empty());
  EXPECT_EQ((*collection)->PartOf(0).target.group, groups[0]);
}

TEST(ViewTest, WhatServersContradictEachOtherInIsSaid) {
  auto groups = MakeGroups(2);
  v1::CollectionInfo info = InfoOf("c", 1, collection::PartitionOf(1, 2));
  info.set_dim(16);
  Say(*groups[1]->replicas()[0], {info});
  EXPECT_THAT(ErrorOf(groups), HasSubstr("dim is 8 on one server and 16 on another"));
  groups = MakeGroups(2);
  Say(*AddReplica(*groups[1], "localhost:9"), {InfoOf("c", 1, {2048, 4000})});
  EXPECT_THAT(ErrorOf(groups), HasSubstr("replicas of group g1 hold slots 2048 .. 4095 and slots 2048 .. 3999"));
}

TEST(ViewTest, AServerThatChangesIsLeftOutWhileOthersOfItsGroupDoNot) {
  const auto groups = MakeGroups(2);
  const v1::CollectionInfo right = InfoOf("c", 1, collection::PartitionOf(1, 2));
  const std::shared_ptr<Replica> changed = AddReplica(*groups[1], "localhost:9");
  Say(*changed, {right});
  const std::shared_ptr<const View> before = View::Of(groups);
  ASSERT_EQ((*before->Find("c"))->parts[1].target.replicas.size(), 2);
  const auto after = [&](const v1::CollectionInfo& info) {
    Say(*changed, {info});
    return *View::Of(groups, before.get())->Find("c");
  };
  v1::CollectionInfo wrong = right;
  wrong.set_dim(16);
  EXPECT_EQ(after(wrong)->parts[1].target.replicas.size(), 1);
  EXPECT_THAT(after(wrong)->info.error(), HasSubstr("dim is 8 on one server and 16 on another"));
  wrong = right;
  wrong.set_storage(v1::DATA_TYPE_I8);
  EXPECT_EQ(after(wrong)->parts[1].target.replicas.size(), 1);
  EXPECT_THAT(after(wrong)->info.error(), HasSubstr("storage"));
  EXPECT_EQ(after(InfoOf("c", 1, collection::PartitionOf(0, 2)))->parts[1].target.replicas.size(), 1);
  EXPECT_EQ(after(InfoOf("c", 1, collection::PartitionOf(0, 2)))->info.state(), v1::COLLECTION_STATE_READY);
  EXPECT_EQ(after(right)->parts[1].target.replicas.size(), 2);
  EXPECT_EQ(after(right)->info.error(), "");
}

TEST(ViewTest, AGroupThatChangesAltogetherIsRead) {
  const auto groups = MakeGroups(1);
  const std::shared_ptr<const View> before = View::Of(groups);
  v1::CollectionInfo info = InfoOf("c", 2, {});
  info.set_dim(16);
  Say(*groups[0]->replicas()[0], {info});
  EXPECT_EQ((*View::Of(groups, before.get())->Find("c"))->info.dim(), 16);
}

TEST(ViewTest, ACollectionThatAGroupHasNotLoadedSaysWhy) {
  const auto groups = MakeGroups(2);
  v1::CollectionInfo info;
  info.set_name("c");
  info.set_state(v1::COLLECTION_STATE_FAILED);
  info.set_error("no such file");
  Say(*groups[1]->replicas()[0], {info});
  EXPECT_THAT(ErrorOf(groups), HasSubstr("group g1: no such file"));
}

TEST(ViewTest, AGroupWhoseServersStartKeepsThePartThatItHad) {
  const auto groups = MakeGroups(2, 3);
  std::shared_ptr<const View> view = View::Of(groups);
  v1::CollectionInfo loading;
  loading.set_name("c");
  loading.set_state(v1::COLLECTION_STATE_LOADING);
  // First the replica has not begun to load the collection, then it is loading. Each view is made from the one before.
  for (const auto& said : {std::vector<v1::CollectionInfo>(), std::vector<v1::CollectionInfo>{loading}}) {
    Say(*groups[1]->replicas()[0], said, /*loading=*/true);
    view = View::Of(groups, view.get());
    const auto collection = view->Find("c");
    ASSERT_TRUE(collection.ok()) << collection.status();
    EXPECT_EQ((*collection)->generation, 3);
    EXPECT_EQ((*collection)->PartOf(4095).target.group, groups[1]);
    EXPECT_TRUE((*collection)->PartOf(4095).target.replicas.empty());
    EXPECT_EQ((*collection)->PartOf(4095).num_documents, 10);
  }
  Say(*groups[1]->replicas()[0], {InfoOf("c", 3, collection::PartitionOf(1, 2))});
  view = View::Of(groups, view.get());
  EXPECT_EQ((*view->Find("c"))->PartOf(4095).target.replicas.size(), 1);
}

TEST(ViewTest, AGroupThatLoadsWhenTheRouterStartsHasTheSlotsThatNobodyElseHas) {
  const auto groups = MakeGroups(2);
  v1::CollectionInfo loading;
  loading.set_name("c");
  loading.set_state(v1::COLLECTION_STATE_LOADING);
  for (const auto& said : {std::vector<v1::CollectionInfo>(), std::vector<v1::CollectionInfo>{loading}}) {
    Say(*groups[1]->replicas()[0], said, /*loading=*/true);
    const auto collection = View::Of(groups)->Find("c");
    ASSERT_TRUE(collection.ok()) << collection.status();
    EXPECT_EQ((*collection)->PartOf(4095).target.group, groups[1]);
  }
}

TEST(ViewTest, AServerThatServesAnswersWhileItLoadsOneMoreCollection) {
  const auto groups = MakeGroups(2);
  v1::CollectionInfo loading;
  loading.set_name("d");
  loading.set_state(v1::COLLECTION_STATE_LOADING);
  const std::shared_ptr<Replica> other = AddReplica(*groups[1], "localhost:9");
  for (const std::shared_ptr<Replica>& replica : groups[1]->replicas()) {
    Say(*replica, {InfoOf("c", 1, collection::PartitionOf(1, 2)), loading});
  }
  Say(*other, {InfoOf("c", 1, collection::PartitionOf(1, 2))});
  EXPECT_EQ((*View::Of(groups)->Find("c"))->PartOf(4095).target.replicas.size(), 2);
}

TEST(ViewTest, WhatAServerSaidBeforeItWentAwayContradictsNobody) {
  const auto groups = MakeGroups(2);
  const std::shared_ptr<Replica> gone = AddReplica(*groups[1], "localhost:9");
  v1::CollectionInfo other = InfoOf("c", 1, {2048, 4000});
  other.set_dim(16);
  Say(*gone, {other});
  gone->SetPollError(absl::UnavailableError("away"));
  EXPECT_TRUE(View::Of(groups)->Find("c").ok());
}

// Two groups of two replicas.
class GenerationTest : public testing::Test {
 protected:
  GenerationTest() : groups_(MakeGroups(2)) {
    for (const std::shared_ptr<Group>& group : groups_)
      AddReplica(*group, absl::StrCat("localhost:1", group->name().substr(1)));
  }

  void SayGenerations(std::array<std::array<uint64_t, 2>, 2> generations) {
    for (size_t g = 0; g < 2; ++g) {
      for (size_t r = 0; r < 2; ++r) {
        Say(*groups_[g]->replicas()[r],
            {InfoOf("c", generations[g][r], collection::PartitionOf(static_cast<int32_t>(g), 2))});
      }
    }
  }

  std::shared_ptr<const CollectionView> Collection() { return *View::Of(groups_)->Find("c"); }

  const std::vector<std::shared_ptr<Group>> groups_;
};

TEST_F(GenerationTest, TheNewestThatEveryGroupHasIsAskedFor) {
  SayGenerations({{{1, 1}, {1, 1}}});
  EXPECT_EQ(Collection()->generation, 1);
  SayGenerations({{{2, 1}, {1, 1}}});
  EXPECT_EQ(Collection()->generation, 1);
  EXPECT_EQ(Collection()->parts[0].target.replicas, Replicas{groups_[0]->replicas()[1]});
  SayGenerations({{{2, 1}, {2, 1}}});
  EXPECT_EQ(Collection()->generation, 2);
  EXPECT_EQ(Collection()->parts[0].target.replicas, Replicas{groups_[0]->replicas()[0]});
  SayGenerations({{{2, 2}, {2, 2}}});
  EXPECT_EQ(Collection()->generation, 2);
  EXPECT_EQ(Collection()->parts[1].target.replicas.size(), 2);
}

TEST_F(GenerationTest, AReplicaThatIsAwayDoesNotCountWhileItsGroupAnswers) {
  SayGenerations({{{2, 1}, {2, 1}}});
  groups_[1]->replicas()[0]->SetPollError(absl::UnavailableError("away"));
  EXPECT_EQ(Collection()->generation, 1);
}

TEST_F(GenerationTest, AReplicaThatStillLoadsDoesNotCountWhileItsGroupAnswers) {
  SayGenerations({{{2, 1}, {2, 1}}});
  Say(*groups_[1]->replicas()[0], {InfoOf("c", 2, collection::PartitionOf(1, 2))}, /*loading=*/true);
  EXPECT_EQ(Collection()->generation, 1);
}

TEST_F(GenerationTest, AGroupThatIsAwayKeepsItsPartAndWhatItLastHad) {
  SayGenerations({{{2, 2}, {2, 2}}});
  for (const std::shared_ptr<Replica>& replica : groups_[1]->replicas()) {
    replica->SetPollError(absl::UnavailableError("away"));
  }
  EXPECT_EQ(Collection()->generation, 2);
  EXPECT_EQ(Collection()->parts.size(), 2);
  EXPECT_EQ(Collection()->parts[1].num_documents, 10);
}

TEST_F(GenerationTest, LiveCollectionsAskForNone) {
  for (size_t g = 0; g < 2; ++g) {
    for (size_t r = 0; r < 2; ++r) {
      v1::CollectionInfo info = InfoOf("c", 1 + g + r, collection::PartitionOf(static_cast<int32_t>(g), 2));
      info.mutable_live()->set_sequence(5 + g + r);
      Say(*groups_[g]->replicas()[r], {info});
    }
  }
  EXPECT_EQ(Collection()->generation, 0);
  EXPECT_EQ(Collection()->parts[0].target.replicas.size(), 2);
  EXPECT_TRUE(Collection()->info.has_live());
}

TEST(ReplicaStateTest, AReplicaIsReadyOnceTheViewSendsItCalls) {
  const auto groups = MakeGroups(1);
  Replica& replica = *groups[0]->replicas()[0];
  const std::vector<v1::CollectionInfo> collections = {InfoOf("c", 1, {})};
  const absl::Time now = MonotonicNow();
  std::shared_ptr<const View> view;
  const auto look = [&] { view = View::Of(groups, view.get()); };
  look();
  EXPECT_EQ(view->StateOf(replica, now), v1::REPLICA_STATE_READY);
  // The replica goes away, comes back and loads. Its state changes at once, without a new view. After it has loaded, it
  // still counts as loading until a new view includes it for calls.
  replica.SetPollError(absl::UnavailableError("away"));
  look();
  EXPECT_EQ(view->StateOf(replica, now), v1::REPLICA_STATE_CONNECTING);
  Say(replica, collections, /*loading=*/true);
  EXPECT_EQ(view->StateOf(replica, now), v1::REPLICA_STATE_LOADING);
  look();
  Say(replica, collections);
  EXPECT_EQ(view->StateOf(replica, now), v1::REPLICA_STATE_LOADING);
  look();
  EXPECT_EQ(view->StateOf(replica, now), v1::REPLICA_STATE_READY);
  // The replica restarts so fast that no call to it fails.
  Say(replica, {}, /*loading=*/true);
  EXPECT_EQ(view->StateOf(replica, now), v1::REPLICA_STATE_LOADING);
  for (int i = 0; i < ReplicaHealth::kMaxFailures; ++i) replica.health().CountFailure(now);
  EXPECT_EQ(view->StateOf(replica, now), v1::REPLICA_STATE_EJECTED);
}

TEST(AnyGroupTest, ReplicasThatLoadAreLeftOut) {
  const auto groups = MakeGroups(2);
  Say(*groups[0]->replicas()[0], {}, /*loading=*/true);
  const std::shared_ptr<Replica> loaded = AddReplica(*groups[1], "localhost:9");
  Say(*loaded, {});
  Say(*groups[1]->replicas()[0], {}, /*loading=*/true);
  EXPECT_EQ(View::Of(groups)->AnyGroup(0)->group, groups[1]);
  EXPECT_EQ(View::Of(groups)->AnyGroup(0)->replicas, Replicas{loaded});
}

TEST(AnyGroupTest, GroupsTakeTurnsAndThoseThatAreAwayAreLeftOut) {
  const auto groups = MakeGroups(3);
  groups[1]->replicas()[0]->SetPollError(absl::UnavailableError("away"));
  const auto view = View::Of(groups);
  EXPECT_EQ(view->AnyGroup(0)->group, groups[0]);
  EXPECT_EQ(view->AnyGroup(1)->group, groups[2]);
  EXPECT_EQ(view->AnyGroup(2)->group, groups[2]);
  groups[0]->replicas()[0]->SetPollError(absl::UnavailableError("away"));
  groups[2]->replicas()[0]->SetPollError(absl::UnavailableError("away"));
  EXPECT_TRUE(absl::IsUnavailable(view->AnyGroup(0).status()));
}

}  // namespace
}  // namespace maxsim::cluster
