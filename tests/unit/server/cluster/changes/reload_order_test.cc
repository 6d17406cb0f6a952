// Tests which generation requests name after reloads that did not reach all servers, and who is told to load it.
#include "server/cluster/changes/reload_order.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "collection/generations/kept_generations.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two groups of two replicas, which have carried out reload 5 and serve generation 1.
class ReloadOrderTest : public testing::Test {
 protected:
  ReloadOrderTest() : groups_(MakeGroups(2)) {
    for (const std::shared_ptr<Group>& group : groups_) {
      Replicas replicas = group->replicas();
      replicas.push_back(MakeReplica(absl::StrCat("localhost:1", group->name().substr(1))));
      group->SetReplicas(replicas);
    }
    SayOnAll(1, 5);
    Look();
  }

  Replica& replica(size_t group, size_t index) { return *groups_[group]->replicas()[index]; }

  void SayOf(size_t group, size_t index, uint64_t generation, uint64_t revision, const std::string& error = "") {
    v1::CollectionInfo info = InfoOf("c", generation, collection::PartitionOf(static_cast<int32_t>(group), 2));
    info.set_reload_revision(revision);
    info.set_error(error);
    Say(replica(group, index), {info});
  }
  void SayOnAll(uint64_t generation, uint64_t revision) {
    for (size_t group : {0, 1}) {
      for (size_t index : {0, 1}) SayOf(group, index, generation, revision);
    }
  }

  const CollectionView& Look() {
    view_ = View::Of(groups_, view_.get());
    return *view_->collections().at("c");
  }
  // Looks as a router that has just started.
  const CollectionView& LookAnew() {
    view_ = nullptr;
    return Look();
  }

  // Returns "GROUP+REPLICA GENERATION/REVISION" of each replica that is to be told.
  std::vector<std::string> BehindNow() {
    std::vector<std::string> texts;
    for (const Behind& one : FindBehind(*view_)) {
      for (size_t group : {0, 1}) {
        for (size_t index : {0, 1}) {
          if (&replica(group, index) != one.replica.get()) continue;
          EXPECT_EQ(one.group, groups_[group]);
          EXPECT_EQ(one.name, "c");
          texts.push_back(absl::StrCat(group, index, " ", one.generation, "/", one.revision));
        }
      }
    }
    return texts;
  }

  const std::vector<std::shared_ptr<Group>> groups_;
  std::shared_ptr<const View> view_;
};

TEST_F(ReloadOrderTest, ARevisionIsTheTimeOrMoreThanAllThatAreKnown) {
  const absl::Time now = absl::FromUnixMicros(1'000);
  EXPECT_EQ(NextRevision(*view_, "c", now), 1'000u);
  SayOf(1, 1, 1, 2'000);
  replica(1, 1).SetPollError(absl::UnavailableError("away"));
  EXPECT_EQ(NextRevision(*view_, "c", now), 2'001u) << "the clock was set back, and the server is away";
  EXPECT_EQ(NextRevision(*view_, "other", now), 1'000u);
  EXPECT_EQ(NextRevision(*view_, "other", absl::FromUnixMicros(-7)), kFirstRevision + 1);
  SayOf(1, 1, 1, collection::kMaxReloadRevision);
  EXPECT_EQ(NextRevision(*view_, "c", now), collection::kMaxReloadRevision);
}

TEST_F(ReloadOrderTest, RequestsNameTheNewGenerationOnceEveryGroupHasIt) {
  SayOf(0, 0, 2, 6);
  EXPECT_EQ(Look().generation, 1u);
  EXPECT_THAT(BehindNow(), IsEmpty()) << "the reload may still be going on";
  SayOf(1, 0, 2, 6);
  EXPECT_EQ(Look().generation, 2u);
  EXPECT_EQ(Look().revision, 6u);
  EXPECT_EQ(Look().info.reload_revision(), 6u);
  EXPECT_THAT(BehindNow(), ElementsAre("01 2/6", "11 2/6"));
}

// Generation 2 is served, and the operator goes back to 1.
TEST_F(ReloadOrderTest, ALaterReloadWinsAlsoIfItGoesBack) {
  SayOnAll(2, 6);
  Look();
  for (size_t group : {0, 1}) SayOf(group, 0, 1, 7);
  EXPECT_EQ(Look().generation, 1u);
  EXPECT_EQ(LookAnew().generation, 1u);
  EXPECT_THAT(BehindNow(), ElementsAre("01 1/7", "11 1/7"));
}

TEST_F(ReloadOrderTest, AReplicaThatMissedAReloadIsToldWhenItAnswers) {
  SayOnAll(2, 6);
  SayOf(1, 1, 1, 5);
  replica(1, 1).SetPollError(absl::UnavailableError("away"));
  EXPECT_EQ(Look().generation, 2u);
  EXPECT_THAT(BehindNow(), IsEmpty());
  SayOf(1, 1, 1, 5, "no generation 2 in /srv/docs");
  EXPECT_EQ(Look().info.state(), v1::COLLECTION_STATE_READY);
  EXPECT_EQ(view_->ReportsOf(replica(1, 1)).at(0).left_out(),
            "it has generation 1, but requests name 2; its last reload failed: no generation 2 in /srv/docs");
  EXPECT_THAT(BehindNow(), ElementsAre("11 2/6"));
  // It is still loading its collections.
  Say(replica(1, 1), {InfoOf("c", 1, collection::PartitionOf(1, 2))}, /*loading=*/true);
  Look();
  EXPECT_THAT(BehindNow(), IsEmpty());
}

// When it was asked, nothing new was published in its folder, and then another server decided.
TEST_F(ReloadOrderTest, AReplicaThatHadNothingNewIsToldWhatTheReloadMeant) {
  SayOnAll(2, 6);
  SayOf(1, 1, 1, 6);
  EXPECT_EQ(LookAnew().generation, 2u);
  EXPECT_THAT(BehindNow(), ElementsAre("11 2/6"));
  // As long as requests name the generation before, the new one is left alone.
  SayOnAll(1, 6);
  SayOf(0, 0, 2, 6);
  EXPECT_EQ(LookAnew().generation, 1u);
  EXPECT_THAT(BehindNow(), IsEmpty());
}

// It missed going back to generation 1, and has the larger number.
TEST_F(ReloadOrderTest, AReplicaThatMissedGoingBackIsToldToGoBack) {
  SayOnAll(1, 7);
  SayOf(0, 1, 2, 6);
  EXPECT_EQ(LookAnew().generation, 1u);
  EXPECT_THAT(BehindNow(), ElementsAre("01 1/7"));
  EXPECT_THAT(view_->ReportsOf(replica(0, 1)).at(0).left_out(), HasSubstr("it has generation 2, but requests name 1"));
}

// A read-only folder: the server could not note the generation, and started with what was published.
TEST_F(ReloadOrderTest, AGenerationThatNoReloadNamedIsNotUsed) {
  SayOf(0, 0, 2, 0);
  EXPECT_EQ(Look().generation, 1u);
  EXPECT_THAT(BehindNow(), ElementsAre("00 1/5"));
  // In a cluster of one group, both generations are in every group.
  groups_[1]->SetReplicas({});
  std::vector<std::shared_ptr<Group>> one = MakeGroups(1);
  Replicas replicas = one[0]->replicas();
  replicas.push_back(MakeReplica("localhost:11"));
  one[0]->SetReplicas(replicas);
  v1::CollectionInfo info = InfoOf("c", 1, {});
  info.set_reload_revision(1);
  Say(*replicas[0], {info});
  Say(*replicas[1], {InfoOf("c", 2, {})});
  EXPECT_EQ(View::Of(one)->collections().at("c")->generation, 1u);
}

// All replicas of group 1 that carried out the last reload are lost, and the others have the generation before.
TEST_F(ReloadOrderTest, RequestsDoNotGoBackWhileAReplicaHasTheNamedGeneration) {
  SayOnAll(2, 6);
  Look();
  SayOf(0, 1, 1, 5);
  SayOf(1, 1, 1, 5);
  replica(1, 0).SetPollError(absl::UnavailableError("away"));
  EXPECT_EQ(Look().generation, 2u);
  EXPECT_EQ(Look().info.state(), v1::COLLECTION_STATE_PARTIAL);
  EXPECT_THAT(BehindNow(), ElementsAre("01 2/6", "11 2/6"));
  SayOf(1, 1, 2, 6);
  EXPECT_EQ(Look().info.state(), v1::COLLECTION_STATE_READY);
  // No replica that answers has carried out the reload any more: all are those that missed it.
  SayOf(1, 1, 1, 5);
  replica(0, 0).SetPollError(absl::UnavailableError("away"));
  EXPECT_EQ(Look().generation, 1u);
}

// An operator reloads one server after the other, each at its own address.
TEST_F(ReloadOrderTest, AReplicaThatIsAheadIsLeftAlone) {
  SayOf(0, 0, 2, 100);
  EXPECT_EQ(Look().generation, 1u);
  EXPECT_THAT(BehindNow(), IsEmpty());
  SayOf(1, 0, 2, 200);
  EXPECT_EQ(Look().generation, 2u);
  EXPECT_EQ(Look().revision, 200u);
  // The first server's own revision is smaller, but it has the generation: it notes the revision.
  EXPECT_THAT(BehindNow(), ElementsAre("00 2/200", "01 2/200", "11 2/200"));
}

TEST_F(ReloadOrderTest, ServersNoteTheGenerationThatNoReloadHasNamed) {
  SayOnAll(3, 0);
  LookAnew();
  EXPECT_THAT(BehindNow(), ElementsAre("00 3/1", "01 3/1", "10 3/1", "11 3/1"));
  SayOf(1, 1, 4, 0);
  Look();
  EXPECT_THAT(BehindNow(), ElementsAre("00 3/1", "01 3/1", "10 3/1")) << "first those that have it";
  for (size_t index : {0, 1}) SayOf(1, index, 4, 0);
  Look();
  EXPECT_THAT(BehindNow(), IsEmpty()) << "no generation is in every group";
}

TEST_F(ReloadOrderTest, LiveCollectionsHaveNoGenerationToKeep) {
  for (size_t group : {0, 1}) {
    for (size_t index : {0, 1}) {
      v1::CollectionInfo info = InfoOf("c", 1 + index, collection::PartitionOf(static_cast<int32_t>(group), 2));
      info.mutable_live()->set_log("local");
      Say(replica(group, index), {info});
    }
  }
  EXPECT_EQ(LookAnew().revision, 0u);
  EXPECT_THAT(BehindNow(), IsEmpty());
}

}  // namespace
}  // namespace maxsim::cluster
