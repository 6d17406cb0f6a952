// Tests that a read does not wait for replicas that are silent, even if its group may send no more hedges (second
// attempts).
#include "base/monotonic_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/cluster/groups/group_call.h"
#include "tests/unit/server/cluster/group_call_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::HasSubstr;

// How long a test waits to see that something does not happen. It is several times the interval at which a call is
// checked.
constexpr absl::Duration kLongEnough = absl::Milliseconds(400);

class GroupCallSilentTest : public GroupCallTest {
 protected:
  GroupCallSilentTest() {
    while (group_->TakeHedge()) {
    }
  }

  std::shared_ptr<Replica> ReplicaAt(const std::string& target) {
    for (const std::shared_ptr<Replica>& replica : group_->replicas()) {
      if (replica->target() == target) return replica;
    }
    return nullptr;
  }

  // Makes a replica leave a poll unanswered.
  static void Silence(Replica& replica) { replica.BeginPoll(MonotonicNow() - Replica::kPollPatience); }

  void LoseAll(const absl::Status& poll_error) {
    for (const std::shared_ptr<Replica>& replica : group_->replicas()) replica->SetPollError(poll_error);
  }
};

TEST_F(GroupCallSilentTest, AReadLeavesAReplicaThatAnswersNothingWhenTheBudgetForHedgesIsGone) {
  Expect(absl::Milliseconds(5));
  Begin(/*may_hedge=*/true);
  WaitForAttempts(2);
  EXPECT_NE(asked()[0], asked()[1]);
  End(1, absl::OkStatus());
  EXPECT_EQ(attempt_, 1);
}

TEST_F(GroupCallSilentTest, AReadLeavesAReplicaWhosePollIsUnansweredBeforeTimesAreMeasured) {
  Begin(/*may_hedge=*/true);
  Silence(*ReplicaAt(asked()[0]));
  WaitForAttempts(2);
  End(1, absl::OkStatus());
  EXPECT_EQ(attempt_, 1);
}

TEST_F(GroupCallSilentTest, AReadThatMayNotHedgeLeavesASilentReplicaToo) {
  Begin(/*may_hedge=*/false);
  Silence(*ReplicaAt(asked()[0]));
  WaitForAttempts(2);
  End(1, absl::OkStatus());
  EXPECT_EQ(attempt_, 1);
}

TEST_F(GroupCallSilentTest, AReadThatMayNotHedgeWaitsForAReplicaThatAnswersPolls) {
  Expect(absl::Milliseconds(5));
  Begin(/*may_hedge=*/false);
  absl::SleepFor(kLongEnough);
  EXPECT_EQ(asked().size(), 1) << "it may be a long scan";
  End(0, absl::OkStatus());
}

TEST_F(GroupCallSilentTest, WhereTheOthersAnswerNothingEitherNobodyElseIsAsked) {
  Expect(absl::Milliseconds(5));
  for (const std::shared_ptr<Replica>& replica : group_->replicas()) replica->BeginCall();
  Begin(/*may_hedge=*/true);
  absl::SleepFor(kLongEnough);
  EXPECT_EQ(asked().size(), 1) << "the whole group is overloaded";
  End(0, absl::OkStatus());
}

TEST_F(GroupCallSilentTest, AWriteStaysWithItsReplica) {
  may_repeat_ = false;
  client_gone_ = std::make_shared<std::atomic<bool>>(false);
  Begin();
  Silence(*ReplicaAt(asked()[0]));
  LoseAll(absl::DeadlineExceededError("no answer"));
  absl::SleepFor(kLongEnough);
  EXPECT_EQ(asked().size(), 1);
  EXPECT_FALSE(finished_.HasBeenNotified());
  End(0, absl::OkStatus());
}

TEST_F(GroupCallSilentTest, AReadOfAGroupThatCannotBeReachedEnds) {
  Expect(absl::Milliseconds(5));
  LoseAll(absl::DeadlineExceededError("no answer"));
  Begin(/*may_hedge=*/true);
  finished_.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(status_)) << status_;
  EXPECT_THAT(std::string(status_.message()), HasSubstr("no replica of group g can be reached"));
  EXPECT_EQ(asked().size(), 3);
  EXPECT_THAT(cancelled(), testing::UnorderedElementsAre(0, 1, 2));
  for (size_t i = 0; i < 3; ++i) End(i, absl::CancelledError(""));
}

TEST_F(GroupCallSilentTest, AReplicaWhoseInfoIsWrongMayStillAnswerCalls) {
  Expect(absl::Milliseconds(5));
  LoseAll(absl::InternalError("a replica gave a wrong answer"));
  Begin(/*may_hedge=*/true);
  WaitForAttempts(3);
  absl::SleepFor(kLongEnough);
  EXPECT_FALSE(finished_.HasBeenNotified()) << status_;
  End(2, absl::OkStatus());
  EXPECT_TRUE(status_.ok());
}

}  // namespace
}  // namespace maxsim::cluster
