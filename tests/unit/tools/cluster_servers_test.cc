// Tests how maxsimctl cluster reads the reports of a router and its servers.
#include "tools/maxsimctl/cluster/servers.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::ctl::cluster {
namespace {

using ::testing::HasSubstr;

class ClusterServersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Describe({0, 2048}, *router_.add_collections());
    Describe({0, 2048}, *servers_["a:1"].add_collections());
    v1::GroupInfo& group = *router_.add_groups();
    group.set_name("g0");
    v1::ReplicaInfo& replica = *group.add_replicas();
    replica.set_target("a:1");
    replica.set_state(v1::REPLICA_STATE_READY);
    v1::ReplicaCollection& held = *replica.add_collections();
    held.set_name("notes");
    held.set_generation(3);
    held.set_sequence(90);
    held.mutable_slots()->set_end_slot(2048);
  }

  static void Describe(const collection::SlotRange& slots, v1::CollectionInfo& info) {
    info.set_name("notes");
    info.set_state(v1::COLLECTION_STATE_READY);
    info.mutable_partition()->set_first_slot(static_cast<uint32_t>(slots.first));
    info.mutable_partition()->set_end_slot(static_cast<uint32_t>(slots.end));
    info.mutable_live()->set_log("nats");
    info.mutable_live()->set_sequence(100);
  }

  static void SetLayout(uint64_t revision, const std::string& group, v1::CollectionInfo& info) {
    v1::SlotLayout& layout = *info.mutable_live()->mutable_layout();
    layout.set_revision(revision);
    v1::SlotOwner& owner = *layout.add_owners();
    owner.set_group(group);
    owner.mutable_slots()->set_end_slot(4096);
  }

  ReplicaState Replica() {
    const absl::StatusOr<ClusterState> state = StateFrom("notes", router_, servers_, problems_);
    EXPECT_TRUE(state.ok()) << state.status();
    return state.ok() ? state->groups[0].replicas[0] : ReplicaState{};
  }

  v1::CollectionInfo& own() { return *servers_["a:1"].mutable_collections(0); }
  v1::ReplicaInfo& reported() { return *router_.mutable_groups(0)->mutable_replicas(0); }

  v1::GetInfoResponse router_;
  std::map<std::string, v1::GetInfoResponse> servers_;
  std::map<std::string, std::string> problems_;
};

TEST_F(ClusterServersTest, AServersOwnReportCounts) {
  own().set_num_tokens(1000);
  own().set_dim(128);
  own().set_code_planes(4);
  own().set_token_bytes(256'000);
  own().mutable_live()->set_log_bytes(7);
  own().mutable_live()->set_lag(3);
  const ReplicaState replica = Replica();
  EXPECT_TRUE(replica.answers());
  EXPECT_TRUE(replica.is_ready);
  EXPECT_EQ(replica.state, "ready");
  EXPECT_EQ(replica.held, (collection::SlotRange{0, 2048}));
  EXPECT_EQ(replica.sequence, 100);
  EXPECT_EQ(replica.lag, 3);
  EXPECT_EQ(replica.num_bytes, 256'000 + 64'000 + 7);
}

TEST_F(ClusterServersTest, AServerIsNotReadyUntilTheRouterKnowsItsSlots) {
  own().clear_partition();
  EXPECT_FALSE(Replica().is_ready);
  EXPECT_EQ(Replica().held, collection::SlotRange{});
  EXPECT_EQ(Replica().held_by_router, (collection::SlotRange{0, 2048}));
  reported().mutable_collections(0)->clear_slots();
  EXPECT_TRUE(Replica().is_ready);
}

TEST_F(ClusterServersTest, AServerThatCannotServeIsNotReady) {
  reported().set_state(v1::REPLICA_STATE_LEFT_OUT);
  EXPECT_TRUE(Replica().is_ready) << "it is left out for another collection";
  reported().mutable_collections(0)->set_left_out("it lags");
  EXPECT_FALSE(Replica().is_ready);
  EXPECT_EQ(Replica().state, "left out: it lags");
  reported().mutable_collections(0)->clear_left_out();
  own().mutable_live()->set_error("the messages between are gone");
  EXPECT_FALSE(Replica().is_ready);
  EXPECT_EQ(Replica().state, "takes no writes: the messages between are gone");
  own().set_state(v1::COLLECTION_STATE_FAILED);
  own().set_error("a file is damaged");
  EXPECT_FALSE(Replica().held.has_value());
  EXPECT_EQ(Replica().state, "without the collection: a file is damaged");
  own().set_state(v1::COLLECTION_STATE_LOADING);
  EXPECT_EQ(Replica().problem, "is loading the collection");
  servers_["a:1"].clear_collections();
  EXPECT_TRUE(Replica().answers());
  EXPECT_FALSE(Replica().is_ready);
  servers_["a:1"].set_loading(true);
  EXPECT_EQ(Replica().problem, "is loading its collections");
}

TEST_F(ClusterServersTest, ASilentServerHoldsWhatTheRouterLastHeard) {
  servers_.clear();
  problems_["a:1"] = "does not answer maxsimctl: refused";
  reported().set_state(v1::REPLICA_STATE_CONNECTING);
  reported().set_error("refused");
  EXPECT_EQ(Replica().problem, "does not answer maxsimctl: refused");
  EXPECT_EQ(Replica().held, (collection::SlotRange{0, 2048}));
  EXPECT_EQ(Replica().sequence, 90);
  EXPECT_EQ(Replica().state, "does not answer: refused");
}

TEST_F(ClusterServersTest, TheNewestLayoutCounts) {
  SetLayout(2, "g0", *router_.mutable_collections(0));
  SetLayout(3, "g1", own());
  absl::StatusOr<ClusterState> state = StateFrom("notes", router_, servers_, problems_);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->revision, 3);
  EXPECT_EQ(state->owners[0].group, "g1");
  EXPECT_EQ(state->router_revision, 2);
  own().mutable_live()->mutable_layout()->mutable_owners(0)->mutable_slots()->set_end_slot(4097);
  state = StateFrom("notes", router_, servers_, problems_);
  EXPECT_EQ(state.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(state.status().message(), HasSubstr("slots 0 up to 4097"));
}

}  // namespace
}  // namespace maxsim::ctl::cluster
