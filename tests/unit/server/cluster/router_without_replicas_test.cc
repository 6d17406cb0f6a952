// Tests reloads and creations of collections through a router that knows no server yet, because the names of its
// groups' servers cannot be resolved.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/cluster/router_collections.h"
#include "tests/unit/server/cluster/router_fixture.h"

namespace maxsim::cluster {
namespace {

class RouterWithoutReplicasTest : public RouterTest {
 protected:
  RouterWithoutReplicasTest() : RouterTest(2, 0) {
    for (GroupOptions& group : options_.groups) group.targets = {"dns:///not-started-yet.example:1"};
    membership_ = std::make_unique<Membership>(
        options_, client::ClientOptions(), &metrics_.cluster(),
        [](const std::string&) -> absl::StatusOr<std::vector<std::string>> {
          return absl::UnavailableError("the name has no address");
        },
        absl::Milliseconds(10));
    EXPECT_TRUE(membership_->Start().ok());
    collections_ = std::make_unique<RouterCollections>(membership_.get(), &shutdown_);
  }

  StopSignal shutdown_;
  std::unique_ptr<RouterCollections> collections_;
};

TEST_F(RouterWithoutReplicasTest, AReloadIsNotFound) {
  v1::ReloadCollectionRequest request;
  request.set_name("c");
  const absl::Status status = collections_->Reload(request, {}).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  collections_->ReloadAll();
}

TEST_F(RouterWithoutReplicasTest, ACreationInEachGroupIsNotFound) {
  v1::CreateCollectionRequest request;
  request.set_name("c");
  const absl::Status status = collections_->CreateForClient(request, {}).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
}

}  // namespace
}  // namespace maxsim::cluster
