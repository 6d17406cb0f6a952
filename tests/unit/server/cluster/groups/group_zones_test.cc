// Tests which replica a router with a zone asks first and second, and when it asks one in another zone.
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/monotonic_clock.h"
#include "client/error_details.h"
#include "client/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/cluster/groups/group.h"
#include "server/cluster/router_info.h"
#include "tests/unit/server/cluster/group_call_fixture.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr int kTurns = 8;

// Makes replicas 0 and 1 of zone a, 2 and 3 of zone b. The router is in zone a.
class ZoneChoiceTest : public testing::Test {
 protected:
  ZoneChoiceTest() {
    for (const char* zone : {"a", "a", "b", "b"}) {
      replicas_.push_back(MakeReplica(absl::StrCat("localhost:", 1 + replicas_.size())));
      SayZone(*replicas_.back(), zone);
    }
  }

  // Returns the replicas that are chosen in some turn.
  std::set<size_t> Chosen(const std::vector<size_t>& tried = {}, ZoneId own_zone = ZoneIdOf("a")) {
    std::vector<const Replica*> tried_replicas;
    for (const size_t idx : tried) tried_replicas.push_back(replicas_[idx].get());
    std::set<size_t> chosen;
    for (uint64_t turn = 0; turn < kTurns; ++turn) {
      const std::shared_ptr<Replica> one = ChooseReplica(replicas_, tried_replicas, now_, turn, own_zone);
      for (size_t idx = 0; idx < replicas_.size(); ++idx) {
        if (replicas_[idx] == one) chosen.insert(idx);
      }
    }
    return chosen;
  }

  void Eject(size_t idx) {
    for (int i = 0; i < ReplicaHealth::kMaxFailures; ++i) replicas_[idx]->health().CountFailure(now_);
  }

  void BeginCalls(size_t idx, int count) {
    for (int i = 0; i < count; ++i) replicas_[idx]->BeginCall();
  }

  const absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  Replicas replicas_;
};

TEST_F(ZoneChoiceTest, ReplicasOfTheOwnZoneTakeTurns) {
  EXPECT_THAT(Chosen(), ElementsAre(0, 1));
  EXPECT_THAT(Chosen({}, ZoneIdOf("b")), ElementsAre(2, 3));
  EXPECT_THAT(Chosen({}, ZoneIdOf("c")), ElementsAre(0, 1, 2, 3)) << "the group has no replica there";
}

TEST_F(ZoneChoiceTest, TheZoneIsTheOneThatTheReplicaReportedLast) {
  for (const size_t idx : {0, 1}) SayZone(*replicas_[idx], "");
  EXPECT_EQ(replicas_[0]->zone_id(), kNoZone);
  SayZone(*replicas_[3], "a");
  EXPECT_THAT(Chosen(), ElementsAre(3));
}

TEST_F(ZoneChoiceTest, OneReplicaOfTheOwnZoneThatIsWellKeepsTheCalls) {
  Eject(0);
  EXPECT_THAT(Chosen(), ElementsAre(1));
}

TEST_F(ZoneChoiceTest, AnotherZoneIsAskedIfTheOwnOneIsLostAndTheOwnOneOnceItIsBack) {
  for (const size_t idx : {0, 1}) replicas_[idx]->SetPollError(absl::UnavailableError("away"));
  EXPECT_THAT(Chosen(), ElementsAre(2, 3));
  SayZone(*replicas_[1], "a");
  EXPECT_THAT(Chosen(), ElementsAre(1));
}

TEST_F(ZoneChoiceTest, AnotherZoneIsAskedIfTheOwnOneIsEjectedSilentOrFull) {
  Eject(0);
  replicas_[1]->BeginPoll(now_ - Replica::kPollPatience);
  EXPECT_THAT(Chosen(), ElementsAre(2, 3));
  SayZone(*replicas_[1], "a");
  replicas_[1]->health().SetFullUntil(now_ + absl::Seconds(1));
  EXPECT_THAT(Chosen(), ElementsAre(2, 3));
}

TEST_F(ZoneChoiceTest, TheOwnZoneIsBetterThanAReplicaElsewhereThatIsNotWell) {
  for (const size_t idx : {0, 1}) BeginCalls(idx, 100);
  for (const size_t idx : {2, 3}) replicas_[idx]->health().SetFullUntil(now_ + absl::Seconds(1));
  EXPECT_THAT(Chosen(), ElementsAre(0, 1));
}

TEST_F(ZoneChoiceTest, CallsLeaveTheZoneIfEachOfItsReplicasHasManyMoreInFlight) {
  for (const size_t idx : {0, 1}) BeginCalls(idx, kOtherZoneCost - 1);
  EXPECT_THAT(Chosen(), ElementsAre(0, 1));
  BeginCalls(0, 2);
  EXPECT_THAT(Chosen(), ElementsAre(1));
  BeginCalls(1, 2);
  EXPECT_THAT(Chosen(), ElementsAre(2, 3));
  BeginCalls(2, 1);
  EXPECT_THAT(Chosen(), ElementsAre(3));
  BeginCalls(3, 1);
  EXPECT_THAT(Chosen(), ElementsAre(0, 1))
      << "a replica elsewhere would have 2 calls, and 9 are less than 8 times that";
}

// Simulates calls to replica 0, which is in the router's zone, and to replica 2, which is not. Replica 0 answers
// `slowness` times as late. Returns the share of calls that go to replica 0.
double ShareOfSlowZone(const Replicas& replicas, int slowness) {
  constexpr int kSteps = 20'000;
  constexpr int kAnswerSteps = 100;  // so that a hundred calls are in flight
  std::vector<std::vector<Replica*>> ends(kSteps + 1);
  int in_own_zone = 0;
  for (int step = 0; step < kSteps; ++step) {
    for (Replica* const replica : ends[static_cast<size_t>(step)]) replica->EndCall();
    const std::shared_ptr<Replica> chosen =
        ChooseReplica(replicas, {}, absl::UnixEpoch(), static_cast<uint64_t>(step), ZoneIdOf("a"));
    const bool is_own = chosen == replicas[0];
    in_own_zone += is_own ? 1 : 0;
    chosen->BeginCall();
    const int end = step + kAnswerSteps * (is_own ? slowness : 1);
    if (end <= kSteps) ends[static_cast<size_t>(end)].push_back(chosen.get());
  }
  return static_cast<double>(in_own_zone) / kSteps;
}

TEST_F(ZoneChoiceTest, TheSlowerTheZoneTheFewerCallsItGets) {
  for (const int slowness : {1, 2, 8}) {
    for (const size_t idx : {0, 2}) {
      replicas_[idx] = MakeReplica(replicas_[idx]->target());
      SayZone(*replicas_[idx], idx == 0 ? "a" : "b");
    }
    EXPECT_NEAR(ShareOfSlowZone({replicas_[0], replicas_[2]}, slowness), 8.0 / (8 + slowness), 0.05) << slowness;
  }
}

TEST_F(ZoneChoiceTest, ASecondReplicaIsOfAnotherZone) {
  EXPECT_THAT(Chosen({0}), ElementsAre(2, 3));
  EXPECT_THAT(Chosen({2}), ElementsAre(0, 1));
  EXPECT_THAT(Chosen({0, 2}), ElementsAre(1)) << "both zones have been asked, and the own one is preferred";
  EXPECT_THAT(Chosen({0, 1, 2}), ElementsAre(3));
  EXPECT_THAT(Chosen({0, 1, 2, 3}), IsEmpty());
  SayZone(*replicas_[3], "c");
  EXPECT_THAT(Chosen({0, 2}), ElementsAre(3));
}

TEST_F(ZoneChoiceTest, ASecondReplicaIsOfTheSameZoneIfNoneElsewhereIsWell) {
  Eject(2);
  replicas_[3]->health().SetFullUntil(now_ + absl::Seconds(1));
  EXPECT_THAT(Chosen({0}), ElementsAre(1));
}

// Compares the choice with that among replicas without zones, in random states.
TEST_F(ZoneChoiceTest, WithoutTheRoutersZoneOrTheReplicasZonesTheChoiceIsTheSame) {
  Replicas plain;
  for (const std::shared_ptr<Replica>& replica : replicas_) plain.push_back(MakeReplica(replica->target()));
  std::mt19937 numbers(1);
  absl::Time now = now_;
  for (int round = 0; round < 500; ++round) {
    now += absl::Hours(1);  // ejections and full times of the last round are over
    for (size_t idx = 0; idx < replicas_.size(); ++idx) {
      const auto calls = static_cast<int>(numbers() % 20);
      const bool is_ejected = numbers() % 4 == 0, is_away = numbers() % 4 == 0, is_full = numbers() % 4 == 0;
      for (const std::shared_ptr<Replica>& replica : {replicas_[idx], plain[idx]}) {
        SayZone(*replica, replica == plain[idx] ? "" : idx < 2 ? "a" : "b");
        while (replica->calls_in_flight() > 0) replica->EndCall();
        for (int i = 0; i < calls; ++i) replica->BeginCall();
        replica->health().CountSuccess(now);
        for (int i = 0; is_ejected && i < ReplicaHealth::kMaxFailures; ++i) replica->health().CountFailure(now);
        if (is_away) replica->SetPollError(absl::UnavailableError("away"));
        if (is_full) replica->health().SetFullUntil(now + absl::Seconds(1));
      }
    }
    const uint64_t turn = numbers();
    const size_t tried = numbers() % replicas_.size();
    const std::string wanted = ChooseReplica(plain, {plain[tried].get()}, now, turn)->target();
    EXPECT_EQ(ChooseReplica(replicas_, {replicas_[tried].get()}, now, turn)->target(), wanted) << "round " << round;
    EXPECT_EQ(ChooseReplica(plain, {plain[tried].get()}, now, turn, ZoneIdOf("a"))->target(), wanted)
        << "round " << round;
  }
}

// Makes replicas 1 and 2 of zone a, which is the router's, and 3 of zone b.
class GroupCallZonesTest : public GroupCallTest {
 protected:
  GroupCallZonesTest() : GroupCallTest(3, 100, ZoneIdOf("a")) {
    const Replicas replicas = group_->replicas();
    for (size_t idx = 0; idx < 3; ++idx) SayZone(*replicas[idx], idx < 2 ? "a" : "b");
  }
};

TEST_F(GroupCallZonesTest, AHedgeGoesToAnotherZone) {
  Expect(absl::Milliseconds(5));
  Begin(/*may_hedge=*/true);
  EXPECT_NE(asked()[0], "localhost:3");
  WaitForAttempts(2);
  EXPECT_EQ(asked()[1], "localhost:3");
  End(1, absl::OkStatus());
  EXPECT_EQ(attempt_, 1);
}

TEST_F(GroupCallZonesTest, ACallThatALostReplicaHadGoesToAnotherZone) {
  Begin();
  End(0, Away());
  ASSERT_EQ(asked().size(), 2);
  EXPECT_EQ(asked()[1], "localhost:3");
  End(1, Away());
  ASSERT_EQ(asked().size(), 3);
  EXPECT_NE(asked()[2], asked()[0]);
  End(2, absl::OkStatus());
  EXPECT_TRUE(status_.ok());
}

TEST_F(GroupCallZonesTest, AWriteOfWhichNothingWasWrittenGoesToAnotherZone) {
  may_repeat_ = false;
  Begin();
  EXPECT_NE(asked()[0], "localhost:3");
  absl::Status refused = Away();
  client::SetNothingWritten(refused);
  End(0, refused);
  ASSERT_EQ(asked().size(), 2);
  EXPECT_EQ(asked()[1], "localhost:3");
  End(1, absl::OkStatus());
  EXPECT_TRUE(status_.ok()) << status_;
}

// Makes two groups of two replicas. All zones are unknown at first.
class GroupsInOneZoneTest : public testing::Test {
 protected:
  GroupsInOneZoneTest() {
    for (int group = 0; group < 2; ++group) {
      groups_.push_back(std::make_shared<Group>(absl::StrCat("g", group), 100));
      groups_.back()->SetReplicas(
          {MakeReplica(absl::StrCat("localhost:1", group)), MakeReplica(absl::StrCat("localhost:2", group))});
    }
  }

  void SayZones(size_t group, const std::vector<std::string>& zones) {
    const Replicas replicas = groups_[group]->replicas();
    for (size_t idx = 0; idx < zones.size(); ++idx) SayZone(*replicas[idx], zones[idx]);
  }

  std::vector<std::shared_ptr<Group>> groups_;
};

TEST_F(GroupsInOneZoneTest, AGroupIsFoundIfThereAreOtherZones) {
  EXPECT_THAT(GroupsInOneZone(groups_), IsEmpty());
  SayZones(0, {"a", "a"});
  EXPECT_THAT(GroupsInOneZone(groups_), IsEmpty()) << "a cluster in one zone has nowhere else to put a copy";
  SayZones(1, {"a", "b"});
  EXPECT_THAT(GroupsInOneZone(groups_), ElementsAre(Pair(groups_[0].get(), "a")));
  SayZones(0, {"a", "b"});
  EXPECT_THAT(GroupsInOneZone(groups_), IsEmpty());
}

TEST_F(GroupsInOneZoneTest, AReplicaWhoseZoneIsUnknownMayBeElsewhere) {
  SayZones(0, {"a", ""});
  SayZones(1, {"a", "b"});
  EXPECT_THAT(GroupsInOneZone(groups_), IsEmpty());
}

TEST_F(GroupsInOneZoneTest, AGroupOfOneReplicaIsNotFound) {
  SayZones(1, {"a", "b"});
  const std::shared_ptr<Replica> only = groups_[0]->replicas()[0];
  SayZone(*only, "a");
  groups_[0]->SetReplicas({only});
  EXPECT_THAT(GroupsInOneZone(groups_), IsEmpty());
}

TEST_F(GroupsInOneZoneTest, AReplicaThatIsLostCountsWhereItWas) {
  SayZones(0, {"a", "b"});
  SayZones(1, {"b", "b"});
  for (const auto& group : groups_) group->replicas()[0]->SetPollError(absl::UnavailableError("away"));
  EXPECT_THAT(GroupsInOneZone(groups_), ElementsAre(Pair(groups_[1].get(), "b")));
}

TEST_F(GroupsInOneZoneTest, InfoAndReadyzNameTheGroupAndTheZone) {
  SayZones(0, {"a", "a"});
  SayZones(1, {"a", "b"});
  const std::shared_ptr<const View> view = View::Of(groups_);
  EXPECT_EQ(DescribeLosses(*view), "group g0 has all replicas in zone a, and would be lost with it\n");
  v1::GetInfoResponse info;
  AddGroups(*view, MonotonicNow(), info);
  EXPECT_EQ(info.groups(0).single_zone(), "a");
  EXPECT_EQ(info.groups(1).single_zone(), "");
  EXPECT_EQ(info.groups(1).replicas(0).zone(), "a");
  EXPECT_EQ(info.groups(1).replicas(1).zone(), "b");
}

}  // namespace
}  // namespace maxsim::cluster
