// Tests that a router reloads a collection on all servers of a cluster.
#include "server/cluster/changes/cluster_reload.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/error_details.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/cluster/router_collections_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ClusterReloadTest : public RouterCollectionsTest {
 protected:
  // Makes a replica load what it is told: the generation of the call, or `published`. It has no other generations.
  void Publish(int group, int index, uint64_t published) {
    FakeReplica& one = replica(group, index);
    one.server().on_reload = [this, &one, group, index, published](const v1::ReloadCollectionRequest& request,
                                                                   v1::ReloadCollectionResponse& response) {
      {
        const MutexLock lock(&mutex_);
        told_.push_back(absl::StrCat(group, index, " ", request.generation()));
        revisions_.push_back(request.revision());
      }
      v1::CollectionInfo info = one.said();
      const uint64_t wanted = request.generation() == 0 ? published : request.generation();
      if (wanted != published && wanted != info.generation()) {
        return client::ToGrpcStatus(client::FieldError(absl::StatusCode::kFailedPrecondition,
                                                       client::kReasonOtherGeneration, "generation", "is not there"));
      }
      response.set_changed(wanted != info.generation());
      info.set_generation(wanted);
      info.set_reload_revision(request.revision());
      one.Say(info);
      *response.mutable_collection() = std::move(info);
      return grpc::Status::OK;
    };
  }
  void PublishOnAll(uint64_t published) {
    for (int group : {0, 1}) {
      for (int index : {0, 1}) Publish(group, index, published);
    }
  }
  std::vector<std::string> told() {
    const MutexLock lock(&mutex_);
    return told_;
  }

  std::vector<std::string> told_ ABSL_GUARDED_BY(mutex_);  // replicas and generations
  std::vector<uint64_t> revisions_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(ClusterReloadTest, TheFirstServerDecidesWhichGenerationIsMeant) {
  PublishOnAll(2);
  const auto response = Reload();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->changed());
  EXPECT_EQ(response->collection().generation(), 2u);
  EXPECT_THAT(told(), ElementsAre("00 0", "10 2", "01 2", "11 2"));
  const MutexLock lock(&mutex_);
  EXPECT_GT(revisions_[0], 1u);
  EXPECT_THAT(revisions_, testing::Each(revisions_[0]));
  EXPECT_EQ(response->collection().reload_revision(), revisions_[0]);
}

TEST_F(ClusterReloadTest, AServerWithoutTheNewGenerationIsAnErrorAndTheOthersServeIt) {
  PublishOnAll(2);
  Publish(0, 0, 1);
  const absl::Status status = Reload().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_EQ(client::FieldOf(status), "generation");
  EXPECT_THAT(std::string(status.message()), HasSubstr("server " + replica(0, 0).target() + " of group g0"));
  EXPECT_THAT(told(), ElementsAre("00 0", "10 0", "01 2", "11 2", "00 2"));
  membership_->Refresh();
  EXPECT_EQ((*membership_->view()->Find("c"))->generation, 2u);
}

// Otherwise a machine with old files would take the whole cluster back.
TEST_F(ClusterReloadTest, AServerThatHasMissedAReloadDoesNotDecide) {
  PublishOnAll(2);
  ASSERT_TRUE(Reload().ok());
  v1::CollectionInfo old = replica(0, 0).said();
  old.set_generation(1);
  old.set_reload_revision(1);
  replica(0, 0).Say(old);
  PublishOnAll(3);
  const size_t before = told().size();
  const auto response = Reload();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->collection().generation(), 3u);
  std::vector<std::string> calls = told();
  calls.erase(calls.begin(), calls.begin() + static_cast<ptrdiff_t>(before));
  EXPECT_THAT(calls, ElementsAre("10 0", "00 3", "01 3", "11 3"));
}

TEST_F(ClusterReloadTest, IfNothingIsNewAServerThatHasMissedAReloadIsToldWhatTheOthersServe) {
  PublishOnAll(2);
  ASSERT_TRUE(Reload().ok());
  v1::CollectionInfo old = replica(0, 0).said();
  old.set_generation(1);
  old.set_reload_revision(1);
  replica(0, 0).Say(old);
  Publish(0, 0, 1);  // its folder lacks generation 2
  const absl::Status status = Reload().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("server " + replica(0, 0).target() + " of group g0"));
  EXPECT_EQ(told().back(), "00 2");
  EXPECT_EQ(replica(0, 0).said().reload_revision(), 1u);
  Publish(0, 0, 2);
  const auto response = Reload();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->collection().generation(), 2u);
  EXPECT_EQ(replica(0, 0).said().generation(), 2u);
}

TEST_F(ClusterReloadTest, IfNothingIsNewNothingChanges) {
  PublishOnAll(1);
  const auto response = Reload();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_FALSE(response->changed());
  EXPECT_THAT(told(), testing::UnorderedElementsAre("00 0", "01 0", "10 0", "11 0"));
}

TEST_F(ClusterReloadTest, ALaterReloadHasALargerRevisionEvenIfItGoesBack) {
  PublishOnAll(2);
  ASSERT_TRUE(Reload().ok());
  PublishOnAll(1);
  const auto response = Reload(/*generation=*/1);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->collection().generation(), 1u);
  EXPECT_THAT(told(), ElementsAre("00 0", "10 2", "01 2", "11 2", "00 1", "10 1", "01 1", "11 1"));
  const MutexLock lock(&mutex_);
  EXPECT_GT(revisions_[4], revisions_[0]);
}

TEST_F(ClusterReloadTest, AReloadGoesInTwoWaves) {
  const auto response = Reload();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->changed());
  EXPECT_EQ(response->collection().num_documents(), 2);
  EXPECT_THAT(response->not_reached(), IsEmpty());
  EXPECT_THAT(asked(),
              ElementsAre("00 ReloadCollection", "10 ReloadCollection", "01 ReloadCollection", "11 ReloadCollection"));
}

TEST_F(ClusterReloadTest, AReplicaOfAnotherGenerationIsReloadedFirst) {
  v1::CollectionInfo next = replica(0, 1).said();
  next.set_generation(2);
  replica(0, 1).Say(next);
  membership_->Refresh();
  ASSERT_TRUE(Reload().ok());
  EXPECT_THAT(asked(),
              ElementsAre("01 ReloadCollection", "10 ReloadCollection", "00 ReloadCollection", "11 ReloadCollection"));
}

TEST_F(ClusterReloadTest, AServerThatDiesDuringAReloadLeavesNoGroupWithoutTheNewGeneration) {
  replica(0, 0).server().admin_status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  const auto response = Reload();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_TRUE(response->changed());
  EXPECT_THAT(response->not_reached(), ElementsAre(replica(0, 0).target() + " of group g0"));
  EXPECT_THAT(asked(),
              ElementsAre("00 ReloadCollection", "10 ReloadCollection", "01 ReloadCollection", "11 ReloadCollection"));
}

TEST_F(ClusterReloadTest, AGroupWithoutAnyServerIsAnErrorAfterTheOthersAreReloaded) {
  for (int number : {0, 1}) {
    replica(0, number).server().admin_status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  }
  const absl::Status status = Reload().status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("server " + replica(0, 0).target() + " of group g0: gone"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no server of its group answers, and all servers that answer"));
  EXPECT_THAT(asked(), testing::UnorderedElementsAre("00 ReloadCollection", "01 ReloadCollection",
                                                     "10 ReloadCollection", "11 ReloadCollection"));
}

TEST_F(ClusterReloadTest, ALostServerIsNotCalled) {
  const std::string target = replica(1, 1).target();
  replica(1, 1).End();
  ASSERT_TRUE(Eventually([&] { return seen(1, 1)->is_lost(); }));
  const auto response = Reload();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_THAT(response->not_reached(), ElementsAre(target + " of group g1"));
  EXPECT_THAT(asked(),
              testing::UnorderedElementsAre("00 ReloadCollection", "01 ReloadCollection", "10 ReloadCollection"));
}

TEST_F(ClusterReloadTest, AnErrorOfTheFilesEndsAReload) {
  replica(0, 0).server().admin_status = grpc::Status(grpc::StatusCode::DATA_LOSS, "damaged");
  EXPECT_TRUE(absl::IsDataLoss(Reload().status()));
  EXPECT_THAT(asked(), ElementsAre("00 ReloadCollection"));
}

TEST_F(ClusterReloadTest, AReloadPassesOverGroupsWithoutTheCollection) {
  for (int number : {0, 1}) {
    v1::CollectionInfo other = replica(0, number).said();
    other.set_name("d");
    replica(0, number).Say(other);
    replica(0, number).server().admin_status = grpc::Status(grpc::StatusCode::NOT_FOUND, "no collection");
  }
  membership_->Refresh();
  EXPECT_TRUE(Reload().ok());
  EXPECT_THAT(asked(), testing::UnorderedElementsAre("00 ReloadCollection", "01 ReloadCollection",
                                                     "10 ReloadCollection", "11 ReloadCollection"));
  for (int number : {0, 1}) {
    v1::CollectionInfo other = replica(1, number).said();
    other.set_name("d");
    replica(1, number).Say(other);
    replica(1, number).server().admin_status = grpc::Status(grpc::StatusCode::NOT_FOUND, "no collection");
  }
  membership_->Refresh();
  EXPECT_TRUE(absl::IsNotFound(Reload().status()));
}

TEST_F(ClusterReloadTest, AServerWhoseFilesAreMissingEndsAReload) {
  replica(0, 0).server().admin_status = grpc::Status(grpc::StatusCode::NOT_FOUND, "no such folder");
  EXPECT_TRUE(absl::IsNotFound(Reload().status()));
  EXPECT_THAT(asked(), ElementsAre("00 ReloadCollection"));
}

TEST_F(ClusterReloadTest, AGroupWithOneReplicaLeftIsReloadedAfterTheFirstWaveOfTheOthers) {
  replica(0, 0).away = true;
  ASSERT_TRUE(Eventually([&] { return !seen(0, 0)->poll_status().ok(); }));
  ASSERT_TRUE(Reload().ok());
  EXPECT_THAT(asked(),
              ElementsAre("10 ReloadCollection", "01 ReloadCollection", "11 ReloadCollection", "00 ReloadCollection"));
}

}  // namespace
}  // namespace maxsim::cluster
