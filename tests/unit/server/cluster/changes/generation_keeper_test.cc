// Tests that replicas which have missed a reload are told to load the generation, over real connections.
#include "server/cluster/changes/generation_keeper.h"

#include <atomic>
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/cluster/router_fixture.h"

namespace maxsim::cluster {
namespace {

// Two groups of two replicas. All serve generation 2, which reload 6 has named.
class GenerationKeeperTest : public RouterTest {
 protected:
  GenerationKeeperTest() {
    for (int group : {0, 1}) {
      for (int index : {0, 1}) {
        SayOf(group, index, 2, 6);
        FakeReplica& one = replica(group, index);
        one.server().on_reload = [this, &one](const v1::ReloadCollectionRequest& request,
                                              v1::ReloadCollectionResponse& response) {
          ++num_calls_;
          if (refuses_) return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "no generation 2 in /srv/docs");
          v1::CollectionInfo info = one.said();
          response.set_changed(info.generation() != request.generation());
          info.set_generation(request.generation());
          info.set_reload_revision(knows_revisions_ ? request.revision() : 0);
          one.Say(info);
          *response.mutable_collection() = info;
          return grpc::Status::OK;
        };
      }
    }
  }

  void SayOf(int group, int index, uint64_t generation, uint64_t revision) {
    v1::CollectionInfo info = replica(group, index).said();
    info.set_generation(generation);
    info.set_reload_revision(revision);
    replica(group, index).Say(info);
  }

  void StartKeeper() {
    Start();
    keeper_ = std::make_unique<GenerationKeeper>(membership_.get(), absl::Milliseconds(5));
    keeper_->Start();
  }

  std::atomic<int> num_calls_{0};
  std::atomic<bool> refuses_{false};
  std::atomic<bool> knows_revisions_{true};
  std::unique_ptr<GenerationKeeper> keeper_;  // destroyed before the membership
};

TEST_F(GenerationKeeperTest, AReplicaThatMissedAReloadLoadsTheGenerationAndJoins) {
  SayOf(1, 1, 1, 5);
  StartKeeper();
  EXPECT_TRUE(Eventually([&] { return replica(1, 1).said().generation() == 2; }));
  EXPECT_EQ(replica(1, 1).said().reload_revision(), 6u);
  EXPECT_TRUE(Eventually([&] { return (*membership_->view()->Find("c"))->parts[1].target.replicas.size() == 2; }));
  keeper_->Stop();
  EXPECT_EQ(num_calls_, 1);
}

TEST_F(GenerationKeeperTest, AReplicaThatCannotLoadItIsLeftAloneForAWhile) {
  refuses_ = true;
  SayOf(1, 1, 1, 5);
  StartKeeper();
  ASSERT_TRUE(Eventually([&] { return num_calls_ > 0; }));
  for (int i = 0; i < 5; ++i) membership_->Refresh();
  keeper_->Stop();
  EXPECT_EQ(num_calls_, 1);
  EXPECT_EQ((*membership_->view()->Find("c"))->parts[1].target.replicas.size(), 1u);
}

TEST_F(GenerationKeeperTest, AServerThatKnowsNoRevisionsIsNotToldAgainAndAgain) {
  knows_revisions_ = false;
  SayOf(1, 1, 1, 0);
  StartKeeper();
  ASSERT_TRUE(Eventually([&] { return num_calls_ > 0; }));
  for (int i = 0; i < 5; ++i) membership_->Refresh();
  keeper_->Stop();
  EXPECT_EQ(num_calls_, 1);
}

TEST_F(GenerationKeeperTest, AllNoteAGenerationThatNoReloadHasNamed) {
  for (int group : {0, 1}) {
    for (int index : {0, 1}) SayOf(group, index, 2, 0);
  }
  StartKeeper();
  for (int group : {0, 1}) {
    for (int index : {0, 1}) {
      EXPECT_TRUE(Eventually([&] { return replica(group, index).said().reload_revision() == kFirstRevision; }));
    }
  }
}

TEST_F(GenerationKeeperTest, AStopEndsACallInProgress) {
  std::atomic<bool> is_called = false;
  replica(1, 1).server().on_admin = [&](const grpc::ServerContext& context, std::string_view) {
    is_called = true;
    Eventually([&] { return context.IsCancelled(); });
  };
  SayOf(1, 1, 1, 5);
  StartKeeper();
  ASSERT_TRUE(Eventually([&] { return is_called.load(); }));
  keeper_->Stop();
  keeper_->Start();  // has no effect
}

}  // namespace
}  // namespace maxsim::cluster
