// Tests that a router unloads a collection from all servers of a cluster and can remove its shared settings.
#include <atomic>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "server/cluster/router_collections.h"
#include "tests/unit/server/cluster/router_fixture.h"

namespace maxsim::cluster {
namespace {

// Two groups of two replicas.
class RouterUnloadTest : public RouterTest {
 protected:
  explicit RouterUnloadTest(bool is_live = false) : RouterTest(2, 2, is_live) {
    Start();
    collections_ = std::make_unique<RouterCollections>(membership_.get(), &shutdown_);
  }

  // Unloads a collection. Returns the number of servers that the router asks to remove the collection's settings.
  int NumRemovalsOf(const std::string& collection, bool remove_settings) {
    std::atomic<int> num_removals{0};
    for (const auto& one : replicas_) {
      one->server().on_unload = [&](const v1::UnloadCollectionRequest& request) {
        if (request.name() == collection && request.remove_settings()) ++num_removals;
        return grpc::Status::OK;
      };
    }
    const absl::Status status = collections_->Unload(collection, remove_settings, {});
    EXPECT_TRUE(status.ok()) << status;
    for (const auto& one : replicas_) one->server().on_unload = nullptr;
    return num_removals;
  }

  StopSignal shutdown_;
  std::unique_ptr<RouterCollections> collections_;
};

class LiveRouterUnloadTest : public RouterUnloadTest {
 protected:
  LiveRouterUnloadTest() : RouterUnloadTest(/*is_live=*/true) {}
};

TEST_F(RouterUnloadTest, AnUnloadOfWhatNobodyHasIsNotFound) {
  for (const auto& one : replicas_) one->server().admin_status = grpc::Status(grpc::StatusCode::NOT_FOUND, "none");
  EXPECT_TRUE(absl::IsNotFound(collections_->Unload("c", /*remove_settings=*/false, {})));
  replica(1, 1).server().admin_status = grpc::Status::OK;
  EXPECT_TRUE(collections_->Unload("c", /*remove_settings=*/false, {}).ok());
}

TEST_F(RouterUnloadTest, OnlyAClientRemovesTheSettingsOfACollectionThatIsNotLive) {
  EXPECT_EQ(NumRemovalsOf("c", /*remove_settings=*/false), 0);
  EXPECT_EQ(NumRemovalsOf("c", /*remove_settings=*/true), 4);
}

TEST_F(RouterUnloadTest, TheSettingsOfACollectionThatNoServerReportsAreRemoved) {
  EXPECT_EQ(NumRemovalsOf("unknown", /*remove_settings=*/false), 4);
}

TEST_F(LiveRouterUnloadTest, TheSettingsOfALiveCollectionAreRemovedAtEveryServer) {
  EXPECT_EQ(NumRemovalsOf("c", /*remove_settings=*/false), 4);
}

}  // namespace
}  // namespace maxsim::cluster
