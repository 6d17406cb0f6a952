// Tests writes whose replica is lost before it answers: it may still carry out the write until the write expires.
#include <string>

#include "base/monotonic_clock.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/cluster/router_documents.h"
#include "server/service/call/write_expiry.h"
#include "tests/unit/server/cluster/group_call_fixture.h"
#include "tests/unit/server/cluster/router_fixture.h"

namespace maxsim::cluster {
namespace {

v1::ServerClock Clock(uint64_t id, absl::Time now) {
  v1::ServerClock clock;
  clock.set_id(id);
  clock.set_now_us(absl::ToUnixMicros(now));
  return clock;
}

class GroupWriteExpiryTest : public GroupCallTest {
 protected:
  GroupWriteExpiryTest() : GroupCallTest(1) { may_repeat_ = false; }

  void TellTime(uint64_t clock_id) {
    const absl::Time now = MonotonicNow();
    group_->replicas()[0]->ObserveClock(Clock(clock_id, now), now);
  }
};

TEST_F(GroupWriteExpiryTest, TheErrorOfALostReplicaComesOnceTheWriteHasExpired) {
  TellTime(7);
  expires_ = MonotonicNow() + absl::Milliseconds(300);
  Begin();
  End(0, Away());
  finished_.WaitForNotification();
  EXPECT_GE(MonotonicNow(), expires_);
  EXPECT_EQ(status_, Away());
  EXPECT_EQ(group_->calls_in_flight(), 0);
}

TEST_F(GroupWriteExpiryTest, TheErrorComesEarlierIfTheReplicaIsStartedAgain) {
  TellTime(7);
  expires_ = MonotonicNow() + absl::Hours(1);
  Begin();
  End(0, Away());
  EXPECT_FALSE(finished_.HasBeenNotified());
  TellTime(8);
  finished_.WaitForNotification();
  EXPECT_EQ(status_, Away());
}

TEST_F(GroupWriteExpiryTest, AnErrorOfTheReplicaItselfEndsTheWriteAtOnce) {
  TellTime(7);
  expires_ = MonotonicNow() + absl::Hours(1);
  absl::Status slow = absl::UnavailableError("NATS has not acknowledged the writes");
  client::SetRetryAfter(absl::Seconds(1), slow);
  Begin();
  End(0, slow);
  EXPECT_TRUE(finished_.HasBeenNotified());
}

TEST_F(GroupWriteExpiryTest, TheErrorOfALostReplicaWithoutAClockEndsTheWriteAtOnce) {
  expires_ = MonotonicNow() + absl::Hours(1);
  Begin();
  End(0, Away());
  EXPECT_TRUE(finished_.HasBeenNotified());
}

TEST_F(GroupWriteExpiryTest, AReadDoesNotWait) {
  TellTime(7);
  may_repeat_ = true;
  Begin();
  End(0, Away());
  EXPECT_TRUE(finished_.HasBeenNotified());
}

TEST_F(GroupWriteExpiryTest, AShutdownEndsAWriteThatWaits) {
  TellTime(7);
  expires_ = MonotonicNow() + absl::Hours(1);
  CallRegistry calls;
  Begin(/*may_hedge=*/false, &calls);
  End(0, Away());
  EXPECT_FALSE(finished_.HasBeenNotified());
  calls.Close();
  EXPECT_TRUE(finished_.HasBeenNotified());
}

TEST(ReplicaClockTest, AnExpiryIsATimeOfTheReplicasClock) {
  const std::shared_ptr<Replica> replica = MakeReplica("localhost:1");
  const absl::Time now = MonotonicNow();
  EXPECT_EQ(replica->WriteExpiryAt(now), "");
  EXPECT_EQ(replica->clock_id(), 0u);
  const absl::Time there = absl::FromUnixMicros(5'000'000);
  replica->ObserveClock(Clock(7, there), now);
  EXPECT_EQ(replica->WriteExpiryAt(now + absl::Seconds(2)), "7:7000000");
  // This answer took a second longer, so it says less about the clock.
  replica->ObserveClock(Clock(7, there), now + absl::Seconds(1));
  EXPECT_EQ(replica->WriteExpiryAt(now + absl::Seconds(2)), "7:7000000");
  // A new process has another clock.
  replica->ObserveClock(Clock(8, there), now + absl::Seconds(1));
  EXPECT_EQ(replica->WriteExpiryAt(now + absl::Seconds(2)), "8:6000000");
  EXPECT_EQ(replica->clock_id(), 8u);
  replica->ObserveClock({}, now + absl::Seconds(2));
  EXPECT_EQ(replica->WriteExpiryAt(now), "") << "a server of an earlier version has taken its place";
}

class RouterWriteExpiryTest : public RouterTest {
 protected:
  RouterWriteExpiryTest() : RouterTest(1, 1, /*is_live=*/true) {}
};

// The fake replica is in this process, so it has this process's clock.
TEST_F(RouterWriteExpiryTest, EveryWriteCarriesItsExpiry) {
  replica(0, 0).TellTime(true);
  absl::Time expires;
  replica(0, 0).server().on_delete = [&](grpc::ServerContext& context, const v1::DeleteRequest&,
                                         v1::DeleteResponse& response) {
    const auto found = context.client_metadata().find(service::kWriteExpiryKey);
    if (found != context.client_metadata().end()) {
      expires = service::ParseWriteExpiry({found->second.data(), found->second.size()});
    }
    response.add_results()->set_outcome(v1::WRITE_OUTCOME_NOT_FOUND);
    return grpc::Status::OK;
  };
  Start();
  RouterDocuments documents(dependencies());
  documents.SetState(service::ServingState::kServing);
  v1::DeleteRequest request;
  request.set_collection("c");
  request.mutable_string_ids()->add_ids("x");
  const absl::Time begin = MonotonicNow();
  const absl::Time deadline = begin + absl::Hours(1);
  const auto answer = Wait<v1::DeleteResponse>([&](service::Done<v1::DeleteResponse> done) {
    documents.Delete(request, {.method = "Delete", .deadline = deadline}, std::move(done));
  });
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_GT(expires, begin - absl::Minutes(5)) << "the write had no expiry";
  EXPECT_LT(expires, deadline - absl::Minutes(30)) << "at most some seconds after it was sent";
}

}  // namespace
}  // namespace maxsim::cluster
