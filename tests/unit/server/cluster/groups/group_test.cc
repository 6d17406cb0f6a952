#include "server/cluster/groups/group.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

TEST(ReplicaHealthTest, ThreeFailuresInARowLeaveAReplicaOutForLongerEachTime) {
  ReplicaHealth health;
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  for (int i = 0; i < ReplicaHealth::kMaxFailures - 1; ++i) health.CountFailure(now);
  EXPECT_FALSE(health.is_ejected(now));
  health.CountSuccess(now);
  for (int i = 0; i < ReplicaHealth::kMaxFailures - 1; ++i) health.CountFailure(now);
  EXPECT_FALSE(health.is_ejected(now)) << "a success begins the count anew";
  absl::Duration expected = ReplicaHealth::kMinEjection;
  for (int round = 0; round < 8; ++round) {
    health.CountFailure(now);
    EXPECT_TRUE(health.is_ejected(now));
    EXPECT_TRUE(health.is_ejected(now + expected - absl::Milliseconds(1)));
    EXPECT_FALSE(health.is_ejected(now + expected));
    now += expected;
    expected = std::min(2 * expected, ReplicaHealth::kMaxEjection);
  }
  EXPECT_EQ(expected, ReplicaHealth::kMaxEjection);
  health.CountSuccess(now);
  for (int i = 0; i < ReplicaHealth::kMaxFailures; ++i) health.CountFailure(now);
  EXPECT_FALSE(health.is_ejected(now + ReplicaHealth::kMinEjection));
}

TEST(ReplicaHealthTest, FailuresOfCallsThatBeganBeforeDoNotLengthenAnEjection) {
  ReplicaHealth health;
  const absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  for (int i = 0; i < 100; ++i) health.CountFailure(now);
  EXPECT_FALSE(health.is_ejected(now + ReplicaHealth::kMinEjection));
}

TEST(ReplicaHealthTest, ABusyReplicaMayBeOvertakenAndASilentOneNot) {
  ReplicaHealth health;
  absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  health.CountSuccess(now);
  const absl::Duration silence = absl::Milliseconds(200);
  const absl::Time begin = now;
  for (int i = 0; i < 100; ++i) health.CountOvertaken(now + silence - absl::Milliseconds(1), silence, begin);
  EXPECT_FALSE(health.is_ejected(now));
  now += silence;
  for (int i = 0; i < ReplicaHealth::kMaxFailures; ++i)
    health.CountOvertaken(now, silence, now - absl::Milliseconds(1));
  EXPECT_FALSE(health.is_ejected(now)) << "nobody asked it before";
  for (int i = 0; i < ReplicaHealth::kMaxFailures; ++i) health.CountOvertaken(now, silence, begin);
  EXPECT_TRUE(health.is_ejected(now));
}

TEST(ReplicaTest, APollThatIsUnansweredTooLongMakesAReplicaSilentUntilAnAnswerComes) {
  const std::shared_ptr<Replica> replica = MakeReplica("localhost:1");
  const absl::Time begin = absl::UnixEpoch() + absl::Hours(1);
  EXPECT_FALSE(replica->is_silent(begin));
  replica->BeginPoll(begin);
  EXPECT_FALSE(replica->is_silent(begin + Replica::kPollPatience - absl::Milliseconds(1)));
  EXPECT_TRUE(replica->is_silent(begin + Replica::kPollPatience));
  // Neither a poll that times out nor the next poll ends the silence. An error answer does.
  replica->CountPollFailure(/*is_silent=*/true);
  replica->BeginPoll(begin + absl::Seconds(1));
  EXPECT_TRUE(replica->is_silent(begin + absl::Seconds(1)));
  replica->CountPollFailure(/*is_silent=*/false);
  EXPECT_FALSE(replica->is_silent(begin + absl::Hours(1)));
  replica->BeginPoll(begin + absl::Hours(1));
  Say(*replica, {});
  EXPECT_FALSE(replica->is_silent(begin + absl::Hours(2)));
}

TEST(ReplicaTest, AReplicaThatIsBackGetsCallsAtOnce) {
  const std::shared_ptr<Replica> replica = MakeReplica("localhost:1");
  const absl::Time now = absl::UnixEpoch() + absl::Hours(1);
  for (int i = 0; i < ReplicaHealth::kMaxFailures; ++i) replica->health().CountFailure(now);
  Say(*replica, {});
  EXPECT_TRUE(replica->health().is_ejected(now)) << "it answers polls all the time and fails calls";
  replica->CountPollFailure(/*is_silent=*/true);
  Say(*replica, {});
  EXPECT_FALSE(replica->health().is_ejected(now));
  for (int i = 0; i < ReplicaHealth::kMaxFailures; ++i) replica->health().CountFailure(now);
  EXPECT_FALSE(replica->health().is_ejected(now + ReplicaHealth::kMinEjection)) << "ejections begin anew";
}

class ChooseReplicaTest : public testing::Test {
 protected:
  ChooseReplicaTest() {
    for (int i = 0; i < 3; ++i) {
      replicas_.push_back(MakeReplica(absl::StrCat("localhost:", 1 + i)));
      Say(*replicas_.back(), {});
    }
  }

  int Choose(const std::vector<const Replica*>& tried = {}, uint64_t turn = 0) {
    const std::shared_ptr<Replica> chosen = ChooseReplica(replicas_, tried, now_, turn);
    for (int i = 0; i < 3; ++i) {
      if (chosen == replicas_[static_cast<size_t>(i)]) return i;
    }
    return -1;
  }

  const absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  Replicas replicas_;
};

TEST_F(ChooseReplicaTest, EqualsTakeTurns) {
  EXPECT_EQ(Choose({}, 0), 0);
  EXPECT_EQ(Choose({}, 1), 1);
  EXPECT_EQ(Choose({}, 2), 2);
  EXPECT_EQ(Choose({}, 3), 0);
}

TEST_F(ChooseReplicaTest, TheOneWithTheFewestCallsIsAsked) {
  replicas_[0]->BeginCall();
  replicas_[2]->BeginCall();
  for (uint64_t turn = 0; turn < 6; ++turn) EXPECT_EQ(Choose({}, turn), 1);
  replicas_[1]->BeginCall();
  replicas_[0]->EndCall();
  for (uint64_t turn = 0; turn < 6; ++turn) EXPECT_EQ(Choose({}, turn), 0);
}

TEST_F(ChooseReplicaTest, OneThatIsLeftOutIsTheLastResort) {
  for (int i = 0; i < ReplicaHealth::kMaxFailures; ++i) replicas_[0]->health().CountFailure(now_);
  replicas_[1]->SetPollError(absl::UnavailableError("away"));
  replicas_[2]->health().SetFullUntil(now_ + absl::Seconds(1));
  EXPECT_EQ(Choose(), 2);
  EXPECT_EQ(Choose({replicas_[2].get()}), 1);
  EXPECT_EQ(Choose({replicas_[2].get(), replicas_[1].get()}), 0);
  EXPECT_EQ(Choose({replicas_[0].get(), replicas_[1].get(), replicas_[2].get()}), -1);
}

TEST_F(ChooseReplicaTest, ASilentOneIsNotAskedWhileAnotherAnswers) {
  for (int i : {0, 1}) replicas_[static_cast<size_t>(i)]->BeginPoll(now_ - Replica::kPollPatience);
  replicas_[2]->BeginCall();
  for (uint64_t turn = 0; turn < 6; ++turn) EXPECT_EQ(Choose({}, turn), 2);
  EXPECT_EQ(Choose({replicas_[2].get()}, 0), 0);
}

TEST(GroupTest, CallsBeyondTheLimitHaveNoPlace) {
  Group group("g", 2);
  EXPECT_TRUE(group.TryBeginCall());
  EXPECT_TRUE(group.TryBeginCall());
  EXPECT_FALSE(group.TryBeginCall());
  group.EndCall();
  EXPECT_TRUE(group.TryBeginCall());
  EXPECT_EQ(group.calls_in_flight(), 2);
}

TEST(GroupTest, ATenthOfCallsMayAskASecondReplica) {
  Group group("g", 2);
  int hedges = 0;
  for (int i = 0; i < 1000; ++i) {
    group.EarnHedge();
    if (group.TakeHedge()) ++hedges;
  }
  EXPECT_GE(hedges, 100);
  EXPECT_LE(hedges, 101);
}

TEST(GroupTest, WhatIsSavedForSecondReplicasIsBounded) {
  Group group("g", 2);
  for (int i = 0; i < 100'000; ++i) group.EarnHedge();
  int hedges = 0;
  while (group.TakeHedge()) ++hedges;
  EXPECT_EQ(hedges, 10);
}

}  // namespace
}  // namespace maxsim::cluster
