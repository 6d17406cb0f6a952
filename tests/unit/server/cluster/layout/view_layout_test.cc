// Tests views of a collection with a layout: which group owns which slots, and which replicas may answer for them.
#include <string>
#include <vector>

#include "base/monotonic_clock.h"
#include "client/slot_message.h"
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

// The collection moves from two groups to three: first g0 and g1 own half of the slots each, then each of g0, g1 and g2
// owns a third.
class ViewLayoutTest : public testing::Test {
 protected:
  ViewLayoutTest() : groups_(MakeGroups(3)) {
    for (const std::shared_ptr<Group>& group : groups_) {
      Replicas replicas = group->replicas();
      replicas.push_back(MakeReplica(absl::StrCat("localhost:1", group->name().substr(1))));
      group->SetReplicas(replicas);
    }
    SayAll(halves_);
  }

  Replica& replica(size_t group, size_t index) { return *groups_[group]->replicas()[index]; }

  void SayOf(size_t group, size_t index, collection::SlotRange held, const v1::SlotLayout& layout) {
    Say(replica(group, index), {LiveInfoOf(held, layout)});
  }

  // Makes every server report this layout. Each server holds the slots that its group owns in either of the two
  // layouts.
  void SayAll(const v1::SlotLayout& layout) {
    for (size_t index : {0, 1}) {
      SayOf(0, index, {0, 2048}, layout);
      SayOf(1, index, {1365, 4096}, layout);
      SayOf(2, index, {2730, 4096}, layout);
    }
  }

  const CollectionView& Look() {
    view_ = View::Of(groups_, view_.get());
    return *view_->collections().at("c");
  }

  static std::vector<std::string> OwnersIn(const CollectionView& collection) {
    std::vector<std::string> owners;
    for (const CollectionView::Part& part : collection.parts) {
      owners.push_back(absl::StrCat(part.target.group->name(), " ", collection::FormatSlotRange(part.slots)));
    }
    return owners;
  }

  std::string ReasonOf(size_t group, size_t index) { return view_->ReportsOf(replica(group, index)).at(0).left_out(); }

  const v1::SlotLayout halves_ = LayoutOf(4, {{"g0", {0, 2048}}, {"g1", {2048, 4096}}});
  const v1::SlotLayout thirds_ = LayoutOf(5, {{"g0", {0, 1365}}, {"g1", {1365, 2730}}, {"g2", {2730, 4096}}});
  const std::vector<std::shared_ptr<Group>> groups_;
  std::shared_ptr<const View> view_;
};

TEST_F(ViewLayoutTest, PartsAreThoseOfTheLayoutAndNotWhatServersHold) {
  SayAll(thirds_);
  const CollectionView& collection = Look();
  ASSERT_TRUE(collection.status.ok()) << collection.status;
  EXPECT_THAT(OwnersIn(collection), ElementsAre("g0 0-1364", "g1 1365-2729", "g2 2730-4095"));
  EXPECT_EQ(collection.info.state(), v1::COLLECTION_STATE_READY);
  EXPECT_EQ(collection.info.live().layout().revision(), 5);
  for (const CollectionView::Part& part : collection.parts) {
    EXPECT_EQ(part.target.replicas.size(), 2);
    EXPECT_TRUE(part.is_restricted);
    for (const int32_t slot : {part.slots.first, part.slots.end - 1}) EXPECT_EQ(&collection.PartOf(slot), &part);
  }
  EXPECT_EQ(DescribeLosses(*view_), "");
}

TEST_F(ViewLayoutTest, WithoutALayoutGroupsMustNotHoldTheSameSlots) {
  SayAll({});
  EXPECT_THAT(std::string(Look().status.message()), HasSubstr("both hold slot 1365"));
  for (size_t index : {0, 1}) {
    SayOf(0, index, {0, 1365}, {});
    SayOf(1, index, {1365, 2730}, {});
  }
  const CollectionView& collection = Look();
  ASSERT_TRUE(collection.status.ok()) << collection.status;
  EXPECT_FALSE(collection.info.live().has_layout());
  for (const CollectionView::Part& part : collection.parts) EXPECT_FALSE(part.is_restricted);
}

TEST_F(ViewLayoutTest, AGroupThatOwnsNothingHasNoPartAndIsNotMissing) {
  const CollectionView& collection = Look();
  ASSERT_TRUE(collection.status.ok()) << collection.status;
  EXPECT_THAT(OwnersIn(collection), ElementsAre("g0 0-2047", "g1 2048-4095"));
  EXPECT_EQ(collection.info.state(), v1::COLLECTION_STATE_READY);
  EXPECT_THAT(collection.missing_groups, IsEmpty());
  EXPECT_THAT(collection.left_out, IsEmpty());
  // A server that fails to load the collection does not matter if its group owns no slots.
  v1::CollectionInfo failed;
  failed.set_name("c");
  failed.set_state(v1::COLLECTION_STATE_FAILED);
  failed.set_error("no such file");
  for (size_t index : {0, 1}) Say(replica(2, index), {failed});
  EXPECT_EQ(Look().info.state(), v1::COLLECTION_STATE_READY);
  for (size_t index : {0, 1}) Say(replica(2, index), {});
  EXPECT_EQ(Look().info.state(), v1::COLLECTION_STATE_READY);
}

TEST_F(ViewLayoutTest, OneServerThatReportsANewerLayoutIsEnough) {
  EXPECT_EQ(Look().layout.revision(), 4);
  SayOf(2, 1, {2730, 4096}, thirds_);
  const CollectionView& collection = Look();
  EXPECT_EQ(collection.layout.revision(), 5);
  EXPECT_THAT(OwnersIn(collection), ElementsAre("g0 0-1364", "g1 1365-2729", "g2 2730-4095"));
  EXPECT_EQ(collection.parts[0].target.replicas.size(), 2) << "what it holds counts, not which layout it knows";
  EXPECT_EQ(view_->ReportsOf(replica(0, 0)).at(0).layout_revision(), 4);
  EXPECT_EQ(view_->ReportsOf(replica(2, 1)).at(0).layout_revision(), 5);
}

TEST_F(ViewLayoutTest, ARouterNeverGoesBackToAnOlderLayout) {
  SayAll(thirds_);
  Look();
  SayAll(halves_);
  EXPECT_EQ(Look().layout.revision(), 5);
  SayAll({});
  EXPECT_EQ(Look().layout.revision(), 5);
  EXPECT_THAT(OwnersIn(Look()), ElementsAre("g0 0-1364", "g1 1365-2729", "g2 2730-4095"));
}

TEST_F(ViewLayoutTest, AReplicaThatDoesNotHoldItsGroupsSlotsIsLeftOut) {
  SayAll(thirds_);
  SayOf(0, 1, {1, 2048}, thirds_);
  const CollectionView& collection = Look();
  EXPECT_THAT(collection.parts[0].target.replicas, ElementsAre(groups_[0]->replicas()[0]));
  EXPECT_EQ(collection.info.state(), v1::COLLECTION_STATE_READY);
  EXPECT_EQ(view_->StateOf(replica(0, 1), MonotonicNow()), v1::REPLICA_STATE_LEFT_OUT);
  EXPECT_EQ(ReasonOf(0, 1), "it holds slots 1 .. 2047, but its group owns slots 0 .. 1364 (revision 5 of the layout)");
  EXPECT_THAT(DescribeLosses(*view_),
              HasSubstr("replica localhost:10 of group g0: left out for collection c: it holds"));
  v1::GetInfoResponse info;
  AddGroups(*view_, MonotonicNow(), info);
  const v1::ReplicaCollection& reported = info.groups(0).replicas(1).collections(0);
  EXPECT_EQ(client::SlotRangeOf(reported.slots()), (collection::SlotRange{1, 2048}));
  EXPECT_EQ(reported.layout_revision(), 5);
  EXPECT_THAT(reported.left_out(), HasSubstr("it holds slots 1 .. 2047"));
}

TEST_F(ViewLayoutTest, AGroupOfWhichNoReplicaHoldsItsSlotsIsMissing) {
  SayAll(thirds_);
  for (size_t index : {0, 1}) SayOf(2, index, {3000, 4096}, thirds_);
  const CollectionView& collection = Look();
  ASSERT_TRUE(collection.status.ok()) << "other groups still answer";
  EXPECT_EQ(collection.info.state(), v1::COLLECTION_STATE_PARTIAL);
  EXPECT_THAT(collection.missing_groups, ElementsAre("g2"));
  EXPECT_EQ(
      collection.info.error(),
      "group g2 owns slots 2730 .. 4095 (revision 5 of the layout), but no replica that answers holds all of them");
  EXPECT_THAT(collection.PartOf(4095).target.replicas, IsEmpty());
  EXPECT_EQ(collection.PartOf(4095).target.group, groups_[2]);
  SayOf(2, 1, {2730, 4096}, thirds_);
  EXPECT_EQ(Look().info.state(), v1::COLLECTION_STATE_READY);
}

TEST_F(ViewLayoutTest, AHolderThatIsAwayIsAskedIfNoOtherReplicaHoldsTheSlots) {
  SayAll(thirds_);
  SayOf(0, 0, {1000, 2048}, thirds_);
  replica(0, 1).SetPollError(absl::UnavailableError("away"));
  EXPECT_THAT(Look().parts[0].target.replicas, ElementsAre(groups_[0]->replicas()[1]));
  EXPECT_THAT(Look().missing_groups, ElementsAre("g0"));
  EXPECT_THAT(Look().info.error(), HasSubstr("group g0 owns slots 0 .. 1364"));
}

TEST_F(ViewLayoutTest, AnOwnerThatTheRouterDoesNotKnowIsMissing) {
  const v1::SlotLayout with_unknown = LayoutOf(6, {{"g0", {0, 2048}}, {"g9", {2048, 2730}}, {"g1", {2730, 4096}}});
  SayAll(with_unknown);
  const CollectionView& collection = Look();
  ASSERT_TRUE(collection.status.ok()) << collection.status;
  EXPECT_THAT(OwnersIn(collection), ElementsAre("g0 0-2047", "g9 2048-2729", "g1 2730-4095"));
  EXPECT_EQ(collection.info.state(), v1::COLLECTION_STATE_PARTIAL);
  EXPECT_THAT(collection.missing_groups, ElementsAre("g9"));
  EXPECT_EQ(collection.info.error(),
            "group g9 owns slots 2048 .. 2729 (revision 6 of the layout), but is not in the router's list of groups");
  EXPECT_THAT(collection.PartOf(2048).target.replicas, IsEmpty());
  EXPECT_TRUE(view_->Find("c").ok());
}

TEST_F(ViewLayoutTest, AServerOfAnotherShapeSetsNoLayout) {
  SayAll(thirds_);
  Look();
  v1::CollectionInfo wrong = LiveInfoOf({}, LayoutOf(900, {{"g7", {0, 4096}}}));
  wrong.set_dim(16);
  Say(replica(1, 1), {wrong});
  const CollectionView& collection = Look();
  ASSERT_TRUE(collection.status.ok()) << collection.status;
  EXPECT_EQ(collection.layout.revision(), 5);
  EXPECT_THAT(collection.parts[1].target.replicas, ElementsAre(groups_[1]->replicas()[0]));
  EXPECT_THAT(ReasonOf(1, 1), HasSubstr("dim is 8 on one server and 16 on another"));
}

TEST_F(ViewLayoutTest, AGroupThatOwnsNothingMayHoldAnotherCollectionOfTheName) {
  v1::CollectionInfo other = LiveInfoOf({}, {});
  other.set_dim(16);
  for (size_t index : {0, 1}) Say(replica(2, index), {other});
  const CollectionView& collection = Look();
  ASSERT_TRUE(collection.status.ok()) << collection.status;
  EXPECT_EQ(collection.info.dim(), 8);
}

TEST_F(ViewLayoutTest, DocumentsAreCountedByOwner) {
  // No server has counted the documents per owner. So each part gets the number of documents that its replicas hold.
  SayAll(thirds_);
  EXPECT_EQ(Look().info.num_documents(), 30);
  // A server of g1 has counted the documents of all slots that it holds.
  v1::SlotLayout counted = thirds_;
  counted.mutable_owners(1)->set_num_documents(6);
  counted.mutable_owners(2)->set_num_documents(3);
  SayOf(1, 0, {1365, 4096}, counted);
  EXPECT_EQ(Look().parts[1].num_documents, 6);
  // The servers of g2 hold exactly the slots of their group. So the view takes the number of documents that they hold
  // (10), and not the number that the server of g1 counted for g2 (3).
  EXPECT_EQ(Look().parts[2].num_documents, 10);
  EXPECT_EQ(Look().info.num_documents(), 26);
  EXPECT_EQ(Look().info.live().layout().owners(1).num_documents(), 6);
  // The numbers are kept while no server tells them.
  SayOf(1, 0, {1365, 4096}, thirds_);
  for (size_t index : {0, 1}) SayOf(2, index, {3000, 4096}, thirds_);
  EXPECT_EQ(Look().parts[1].num_documents, 6);
  EXPECT_EQ(Look().parts[2].num_documents, 10);
  EXPECT_EQ(Look().info.num_documents(), 16) << "g2 is missing";
}

TEST_F(ViewLayoutTest, ACollectionWhoseServersAllStartKeepsLayoutAndShape) {
  SayAll(thirds_);
  Look();
  v1::CollectionInfo loading;
  loading.set_name("c");
  loading.set_state(v1::COLLECTION_STATE_LOADING);
  for (size_t group : {0, 1, 2}) {
    for (size_t index : {0, 1}) Say(replica(group, index), {loading}, /*loading=*/true);
  }
  const CollectionView& collection = Look();
  ASSERT_TRUE(collection.status.ok()) << collection.status;
  EXPECT_THAT(collection.missing_groups, ElementsAre("g0", "g1", "g2"));
  EXPECT_EQ(collection.info.dim(), 8);
  EXPECT_EQ(collection.info.live().log(), kStreamLog);
  EXPECT_EQ(collection.layout.revision(), 5);
}

TEST_F(ViewLayoutTest, ACollectionThatIsNotLiveHasNoLayout) {
  Look();
  for (size_t group : {0, 1, 2}) {
    for (size_t index : {0, 1}) {
      Say(replica(group, index), {InfoOf("c", 1, collection::PartitionOf(static_cast<int32_t>(group), 3))});
    }
  }
  const CollectionView& collection = Look();
  ASSERT_TRUE(collection.status.ok()) << collection.status;
  EXPECT_FALSE(collection.has_layout());
  EXPECT_FALSE(collection.info.has_live());
  EXPECT_EQ(collection.generation, 1);
}

}  // namespace
}  // namespace maxsim::cluster
