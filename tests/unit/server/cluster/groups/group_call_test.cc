// Tests calls to a group of fake replicas. Each test decides when and how each attempt ends.
#include "server/cluster/groups/group_call.h"

#include <optional>
#include <string>

#include "base/monotonic_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/server/cluster/group_call_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::HasSubstr;

TEST_F(GroupCallTest, OneReplicaIsAskedAndItsAnswerEndsTheCall) {
  Begin();
  ASSERT_EQ(asked().size(), 1);
  EXPECT_EQ(group_->calls_in_flight(), 1);
  End(0, absl::OkStatus());
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_TRUE(status_.ok());
  EXPECT_EQ(attempt_, 0);
  EXPECT_EQ(group_->calls_in_flight(), 0);
  for (const std::shared_ptr<Replica>& replica : group_->replicas()) EXPECT_EQ(replica->calls_in_flight(), 0);
}

TEST_F(GroupCallTest, ALostReplicaIsFollowedByEachOfTheOthersOnce) {
  Begin();
  End(0, Away());
  ASSERT_EQ(asked().size(), 2);
  End(1, absl::InternalError("a fault"));
  ASSERT_EQ(asked().size(), 3);
  EXPECT_FALSE(finished_.HasBeenNotified());
  End(2, Away());
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_EQ(status_, Away());
  EXPECT_THAT(asked(), testing::UnorderedElementsAre("localhost:1", "localhost:2", "localhost:3"));
}

TEST_F(GroupCallTest, AnErrorOfTheRequestIsFinalAndSaysNothingAgainstTheReplica) {
  const std::shared_ptr<Replica> first = group_->replicas()[0];
  for (int i = 0; i + 1 < ReplicaHealth::kMaxFailures; ++i) first->health().CountFailure(MonotonicNow());
  Begin();
  ASSERT_EQ(asked()[0], first->target());
  End(0, absl::InvalidArgumentError("queries[0]: wrong"));
  EXPECT_TRUE(finished_.HasBeenNotified());
  EXPECT_EQ(asked().size(), 1);
  EXPECT_TRUE(absl::IsInvalidArgument(status_));
  first->health().CountFailure(MonotonicNow());
  EXPECT_FALSE(first->health().is_ejected(MonotonicNow()));
}

TEST_F(GroupCallTest, AnotherReplicaMayHaveTheGenerationThatOneHasNot) {
  Begin();
  absl::Status other = absl::FailedPreconditionError("collection c: is of generation 1");
  client::SetReason(client::kReasonOtherGeneration, other);
  End(0, other);
  ASSERT_EQ(asked().size(), 2);
  End(1, absl::OkStatus());
  EXPECT_TRUE(status_.ok());
  EXPECT_EQ(attempt_, 1);
}

TEST_F(GroupCallTest, AnotherReplicaMayHoldTheSlotsThatOneHasNot) {
  const absl::Status other = client::FieldError(absl::StatusCode::kFailedPrecondition, client::kReasonOtherSlots,
                                                "visible", "asks for slots 0 .. 99");
  // The refused write was not carried out, so another replica may get it.
  for (const bool may_repeat : {true, false}) {
    may_repeat_ = may_repeat;
    const size_t first = asked().size();
    Begin();
    End(first, other);
    ASSERT_EQ(asked().size(), first + 2);
    End(first + 1, absl::OkStatus());
    EXPECT_TRUE(status_.ok());
    EXPECT_EQ(attempt_, 1);
  }
  EXPECT_FALSE(IsFault(other));
  EXPECT_FALSE(IsOtherGeneration(other));
  EXPECT_TRUE(absl::IsUnavailable(WriteErrorOf(other)));
  EXPECT_TRUE(client::IsNothingWritten(WriteErrorOf(other)));
  EXPECT_EQ(WriteErrorOf(Away()), Away());
}

TEST_F(GroupCallTest, SlotsInTheClientsOwnFilterAreTheClientsMistake) {
  const absl::Status wrong = client::FieldError(absl::StatusCode::kFailedPrecondition, client::kReasonOtherSlots,
                                                "filter", "asks for slots 0 .. 99");
  Begin();
  End(0, wrong);
  EXPECT_TRUE(finished_.HasBeenNotified());
  EXPECT_EQ(asked().size(), 1);
  EXPECT_EQ(status_, wrong);
  EXPECT_FALSE(IsSafeToRepeat(wrong));
}

TEST_F(GroupCallTest, AFullReplicaIsNotAskedAgainForAWhile) {
  absl::Status full = absl::ResourceExhaustedError("full");
  client::SetRetryAfter(absl::Hours(1), full);
  Begin();
  for (int i = 0; i < 3; ++i) End(static_cast<size_t>(i), full);
  EXPECT_TRUE(absl::IsResourceExhausted(status_));
  // The next call is refused without asking.
  std::optional<absl::Status> next;
  StartGroupCall(
      {.timer = &timer_}, {group_, group_->replicas()}, {.deadline = deadline_},
      [](Replica&, int, const tracing::SpanParent&, const std::function<void(absl::Status)>&) -> std::function<void()> {
        ADD_FAILURE() << "a full group was asked";
        return nullptr;
      },
      [&](const absl::Status& status, int) { next = status; });
  ASSERT_TRUE(next.has_value());
  EXPECT_TRUE(absl::IsResourceExhausted(*next));
  const std::optional<absl::Duration> retry = client::RetryAfter(*next);
  ASSERT_TRUE(retry.has_value());
  EXPECT_LE(*retry, absl::Seconds(1));
}

TEST_F(GroupCallTest, AReplicaWithALimitForOneKindOfCallIsNotFullForOthers) {
  full_for_all_ = false;
  absl::Status full = absl::ResourceExhaustedError("2 calls of Facets are in progress");
  client::SetRetryAfter(absl::Hours(1), full);
  Begin();
  for (int i = 0; i < 3; ++i) End(static_cast<size_t>(i), full);
  EXPECT_TRUE(absl::IsResourceExhausted(status_));
  Begin();
  ASSERT_EQ(asked().size(), 4);
  End(3, absl::OkStatus());
  EXPECT_TRUE(status_.ok());
}

TEST_F(GroupCallTest, ResourceExhaustedWithoutATimeIsFinal) {
  Begin();
  End(0, absl::ResourceExhaustedError("the request is too large"));
  EXPECT_TRUE(finished_.HasBeenNotified());
  EXPECT_EQ(asked().size(), 1);
}

TEST_F(GroupCallTest, AWriteWhoseAnswerIsLostIsNotSentToAnother) {
  may_repeat_ = false;
  Begin();
  End(0, Away());
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_TRUE(absl::IsUnavailable(status_));
  EXPECT_EQ(asked().size(), 1);
}

TEST_F(GroupCallTest, AWriteOfWhichNothingWasWrittenIsSentToAnother) {
  may_repeat_ = false;
  Begin();
  absl::Status refused = Away();
  client::SetNothingWritten(refused);
  End(0, refused);
  absl::Status not_sent = Away();
  client::SetReason(client::kReasonNotConnected, not_sent);
  End(1, not_sent);
  End(2, absl::OkStatus());
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(asked().size(), 3);
}

TEST_F(GroupCallTest, AReplicaThatSaysWhenToComeBackIsWell) {
  for (int call = 0; call < 2 * ReplicaHealth::kMaxFailures; ++call) {
    absl::Status behind = absl::UnavailableError("min_sequence: is 5");
    client::SetRetryAfter(absl::Milliseconds(1), behind);
    const size_t before = asked().size();
    Begin();
    for (size_t attempt = before; attempt < before + 3; ++attempt) End(attempt, behind);
  }
  for (const auto& replica : group_->replicas()) EXPECT_FALSE(replica->health().is_ejected(MonotonicNow()));
}

TEST_F(GroupCallTest, AfterTheDeadlineNobodyElseIsAsked) {
  deadline_ = MonotonicNow() - absl::Milliseconds(1);
  Begin();
  End(0, Away());
  EXPECT_TRUE(finished_.HasBeenNotified());
  EXPECT_EQ(asked().size(), 1);
}

TEST_F(GroupCallTest, ASlowReplicaIsFollowedByAnotherAndTheFirstAnswerCounts) {
  Expect(absl::Milliseconds(5));
  Begin(/*may_hedge=*/true);
  WaitForAttempts(2);
  EXPECT_NE(asked()[0], asked()[1]);
  End(1, absl::OkStatus());
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_EQ(attempt_, 1);
  EXPECT_THAT(cancelled(), testing::ElementsAre(0));
  // The slower attempt ends too late. Its outcome must change nothing.
  End(0, absl::CancelledError(""));
  EXPECT_TRUE(status_.ok());
  for (const std::shared_ptr<Replica>& replica : group_->replicas()) EXPECT_EQ(replica->calls_in_flight(), 0);
}

TEST_F(GroupCallTest, AReplicaThatLosesAgainAndAgainIsLeftOut) {
  const std::shared_ptr<Replica> slow = group_->replicas()[0];
  for (int i = 0; i < ReplicaHealth::kMaxFailures; ++i) slow->health().CountFailure(MonotonicNow());
  EXPECT_TRUE(slow->health().is_ejected(MonotonicNow()));
  Begin();
  EXPECT_NE(asked()[0], slow->target());
  End(0, absl::OkStatus());
}

TEST_F(GroupCallTest, WhereNobodyWhoWasAskedAnswersAnyMoreAnotherIsAskedAtNoCost) {
  while (group_->TakeHedge()) {
  }
  Expect(absl::Milliseconds(5));
  Begin(/*may_hedge=*/true);
  for (const std::shared_ptr<Replica>& replica : group_->replicas()) {
    if (replica->target() == asked()[0]) replica->SetPollError(absl::UnavailableError("paused"));
  }
  WaitForAttempts(2);
  End(1, absl::OkStatus());
  EXPECT_EQ(attempt_, 1);
}

TEST_F(GroupCallTest, WhereOneStandsStillAndTheOthersAreBehindTheCallSaysWhenToComeBack) {
  Expect(absl::Milliseconds(5));
  absl::Status behind = absl::UnavailableError("min_sequence: is 5");
  client::SetRetryAfter(absl::Milliseconds(1), behind);
  Begin(/*may_hedge=*/true);
  WaitForAttempts(2);
  End(1, behind);
  End(2, behind);
  EXPECT_FALSE(finished_.HasBeenNotified());
  finished_.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(status_));
  EXPECT_TRUE(client::RetryAfter(status_).has_value());
  EXPECT_THAT(cancelled(), testing::ElementsAre(0));
  End(0, absl::CancelledError(""));
}

TEST_F(GroupCallTest, AWriteIsAwaitedEvenFromAReplicaThatStandsStill) {
  Expect(absl::Milliseconds(5));
  may_repeat_ = false;
  client_gone_ = std::make_shared<std::atomic<bool>>(false);
  absl::Status behind = absl::UnavailableError("min_sequence: is 5");
  client::SetRetryAfter(absl::Milliseconds(1), behind);
  client::SetNothingWritten(behind);
  Begin();
  End(0, behind);
  End(1, behind);
  absl::SleepFor(absl::Milliseconds(400));
  ASSERT_FALSE(finished_.HasBeenNotified()) << "the last replica may be writing: " << status_;
  End(2, absl::OkStatus());
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_TRUE(status_.ok()) << status_;
}

TEST_F(GroupCallTest, AWriteThatWatchesItsClientEndsWhenItGoesAway) {
  may_repeat_ = false;
  client_gone_ = std::make_shared<std::atomic<bool>>(false);
  Begin();
  *client_gone_ = true;
  finished_.WaitForNotification();
  EXPECT_TRUE(absl::IsCancelled(status_)) << status_;
  EXPECT_THAT(cancelled(), testing::ElementsAre(0));
  End(0, absl::CancelledError(""));
}

TEST_F(GroupCallTest, WithoutMeasuredTimesNobodyIsAskedTwice) {
  Begin(/*may_hedge=*/true);
  absl::SleepFor(absl::Milliseconds(30));
  EXPECT_EQ(asked().size(), 1);
  End(0, absl::OkStatus());
}

TEST_F(GroupCallTest, AnAnswerInTimeAsksNobodyElse) {
  // A second attempt would begin only after the expected 2 s. The first one is answered before that, even on a busy
  // machine.
  Expect(absl::Seconds(2));
  Begin(/*may_hedge=*/true);
  End(0, absl::OkStatus());
  absl::SleepFor(absl::Milliseconds(2500));
  EXPECT_EQ(asked().size(), 1);
}

class FullGroupCallTest : public GroupCallTest {
 protected:
  FullGroupCallTest() : GroupCallTest(1, 1) {}
};

TEST_F(FullGroupCallTest, ACallBeyondTheLimitIsRefusedWithATime) {
  EXPECT_TRUE(group_->TryBeginCall());
  Begin();
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_TRUE(absl::IsResourceExhausted(status_));
  EXPECT_TRUE(client::RetryAfter(status_).has_value());
  EXPECT_THAT(std::string(status_.message()), HasSubstr("cluster.max_calls_in_flight"));
}

TEST_F(GroupCallTest, CallsUnderWayEndWhenTheRegistryIsClosed) {
  CallRegistry calls;
  Begin(/*may_hedge=*/false, &calls);
  EXPECT_EQ(calls.size(), 1);
  EXPECT_FALSE(finished_.HasBeenNotified());
  EXPECT_EQ(calls.Close(), 1);
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_TRUE(absl::IsUnavailable(status_));
  EXPECT_THAT(cancelled(), testing::ElementsAre(0));
  EXPECT_EQ(group_->calls_in_flight(), 0);
  End(0, absl::OkStatus());  // too late
  EXPECT_TRUE(absl::IsUnavailable(status_));
}

TEST_F(GroupCallTest, AClosedRegistryRefusesCalls) {
  CallRegistry calls;
  EXPECT_EQ(calls.Close(), 0);
  Begin(/*may_hedge=*/false, &calls);
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_TRUE(absl::IsUnavailable(status_));
  EXPECT_TRUE(asked().empty());
  EXPECT_EQ(group_->calls_in_flight(), 0);
}

TEST_F(GroupCallTest, WhoWaitsForCallsGoesOnWhenTheLastHasEnded) {
  CallRegistry calls;
  Begin(/*may_hedge=*/false, &calls);
  const absl::Time begin = MonotonicNow();
  calls.WaitForNone(begin + absl::Milliseconds(20));
  EXPECT_GE(MonotonicNow(), begin + absl::Milliseconds(20));
  End(0, absl::OkStatus());
  calls.WaitForNone(absl::InfiniteFuture());
  EXPECT_EQ(calls.size(), 0);
}

TEST(GroupCallWithoutReplicasTest, NoReplicaIsUnavailable) {
  absl::Status status;
  StartGroupCall({}, {std::make_shared<Group>("g", 1), {}}, {}, nullptr,
                 [&](const absl::Status& end, int) { status = end; });
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("group g"));
}

}  // namespace
}  // namespace maxsim::cluster
