// Tests how a router learns which servers exist, and that a slow look-up of addresses does not block it.
#include "server/cluster/groups/membership.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/cluster/router_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class MembershipTest : public RouterTest {
 protected:
  // Starts with names that `resolve` looks up.
  void StartWith(Resolve resolve, absl::Duration watch_interval = absl::Milliseconds(10)) {
    membership_ = std::make_unique<Membership>(options_, client::ClientOptions(), &metrics_.cluster(),
                                               std::move(resolve), watch_interval);
    ASSERT_TRUE(membership_->Start().ok());
  }

  Replicas ReplicasOf(size_t group) { return membership_->view()->groups()[group]->replicas(); }

  // Look-ups of addresses block until this is notified. The threads that look up addresses share ownership of it.
  const std::shared_ptr<absl::Notification> answered_ = std::make_shared<absl::Notification>();
};

TEST_F(MembershipTest, ARefreshShowsWhatReplicasHave) {
  Start();
  const auto collection = membership_->view()->Find("c");
  ASSERT_TRUE(collection.ok()) << collection.status();
  EXPECT_THAT((*collection)->parts, SizeIs(2));
  for (const CollectionView::Part& part : (*collection)->parts) EXPECT_THAT(part.target.replicas, SizeIs(2));
  v1::CollectionInfo next = replica(0, 0).said();
  next.set_num_documents(1000);
  for (int index : {0, 1}) replica(0, index).Say(next);
  membership_->Refresh();
  EXPECT_EQ((*membership_->view()->Find("c"))->info.num_documents(), 1001);
}

TEST_F(MembershipTest, GroupsKnowTheRoutersZone) {
  options_.zone = "a";
  Start();
  for (const std::shared_ptr<Group>& group : membership_->view()->groups()) {
    EXPECT_EQ(group->own_zone(), ZoneIdOf("a"));
    EXPECT_EQ(group->replicas()[0]->zone_id(), kNoZone) << "the servers name none";
  }
}

TEST_F(MembershipTest, AReplicaThatDoesNotAnswerIsKnownForItAndComesBack) {
  Start();
  replica(1, 0).away = true;
  EXPECT_TRUE(Eventually([&] { return !seen(1, 0)->poll_status().ok(); }));
  EXPECT_TRUE(seen(1, 1)->poll_status().ok());
  replica(1, 0).away = false;
  EXPECT_TRUE(Eventually([&] { return seen(1, 0)->poll_status().ok(); }));
}

TEST_F(MembershipTest, ANameThatTakesLongHoldsNothingUp) {
  const std::string target = options_.groups[1].targets[0];
  options_.groups[1].targets = {"dns:///slow.example:1"};
  StartWith([answered = answered_, target](const std::string& name) -> absl::StatusOr<std::vector<std::string>> {
    if (!IsName(name)) return std::vector<std::string>{name};
    answered->WaitForNotification();
    return std::vector<std::string>{target};
  });
  membership_->Refresh();
  EXPECT_TRUE(ReplicasOf(0)[0]->poll_status().ok());
  EXPECT_THAT(ReplicasOf(1), IsEmpty());
  answered_->Notify();
  ASSERT_TRUE(Eventually([&] { return ReplicasOf(1).size() == 1; }));
  EXPECT_TRUE(Eventually([&] { return ReplicasOf(1)[0]->poll_status().ok(); }));
}

TEST_F(MembershipTest, TheEndDoesNotWaitForANameServer) {
  options_.groups[1].targets = {"dns:///slow.example:1"};
  const auto asked = std::make_shared<absl::Notification>();
  const auto gone = std::make_shared<absl::Notification>();
  StartWith([answered = answered_, asked, gone](const std::string& name) -> absl::StatusOr<std::vector<std::string>> {
    if (!IsName(name)) return std::vector<std::string>{name};
    asked->Notify();
    answered->WaitForNotification();
    gone->Notify();
    return absl::UnavailableError("too late");
  });
  asked->WaitForNotification();
  membership_.reset();
  EXPECT_FALSE(gone->HasBeenNotified());
  answered_->Notify();
  gone->WaitForNotification();
}

TEST_F(MembershipTest, ANameServerThatIsAwayTakesNobodysReplicas) {
  const std::string target = options_.groups[1].targets[0];
  options_.groups[1].targets = {"dns:///b.example:1"};
  const auto count = std::make_shared<std::atomic<int>>(0);
  StartWith([count, target](const std::string& name) -> absl::StatusOr<std::vector<std::string>> {
    if (!IsName(name)) return std::vector<std::string>{name};
    if (++*count == 1) return std::vector<std::string>{target};
    return absl::UnavailableError("no name server");
  });
  ASSERT_TRUE(Eventually([&] { return ReplicasOf(1).size() == 1; }));
  const std::shared_ptr<Replica> before = ReplicasOf(1)[0];
  const int then = *count;
  ASSERT_TRUE(Eventually([&] { return *count > then + 2; }));
  EXPECT_THAT(ReplicasOf(1), testing::ElementsAre(before));
}

TEST_F(MembershipTest, AFileOfGroupsThatChangesIsReadAgain) {
  const std::string path = testing::TempDir() + "/maxsim-membership-groups";
  const auto write = [&](const std::string& text) { std::ofstream(path) << text; };
  const std::string both = absl::StrCat(FormatGroup(options_.groups[0]), "\n", FormatGroup(options_.groups[1]), "\n");
  write(both);
  options_.groups.clear();
  options_.groups_file = path;
  StartWith(ResolveTarget);
  EXPECT_THAT(membership_->view()->groups(), SizeIs(2));
  const std::shared_ptr<Replica> before = ReplicasOf(0)[1];
  write("g0=" + replica(0, 1).target() + "\n");
  ASSERT_TRUE(Eventually([&] { return membership_->view()->groups().size() == 1; }));
  EXPECT_THAT(ReplicasOf(0), testing::ElementsAre(before));
  write("nonsense");  // The last valid content stays in use.
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_THAT(membership_->view()->groups(), SizeIs(1));
  write(both);
  EXPECT_TRUE(Eventually([&] { return membership_->view()->groups().size() == 2; }));
}

TEST_F(MembershipTest, AfterTheEndARefreshWaitsForNothing) {
  Start();
  membership_->Stop();
  bool ran = false;
  membership_->RefreshThen([&] { ran = true; });
  EXPECT_TRUE(ran);
  membership_->Refresh();
}

TEST(ResolveTargetTest, AnAddressIsItself) {
  EXPECT_THAT(ResolveTarget("a.example:7070").value(), testing::ElementsAre("a.example:7070"));
  EXPECT_THAT(ResolveTarget("dns:///127.0.0.1:7070").value(), testing::ElementsAre("ipv4:127.0.0.1:7070"));
  const absl::Status status = ResolveTarget("dns:///no.such.name.invalid:1").status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no.such.name.invalid"));
}

}  // namespace
}  // namespace maxsim::cluster
