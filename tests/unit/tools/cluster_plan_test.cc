// Tests the plans of moved slots on a cluster in memory.
#include "tools/maxsimctl/cluster/plan.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/tools/cluster_world.h"
#include "tools/maxsimctl/cluster/sources.h"

namespace maxsim::ctl::cluster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const PlanOptions kOptions = {.grace = absl::Seconds(3)};

// Carries out steps one after the other until nothing is left to do or `max_steps` are done. Returns the number done.
int CarryOut(ClusterWorld& world, const Owners& wanted, int max_steps = 1000, const PlanOptions& options = kOptions) {
  Progress progress;
  for (int done = 0; done < max_steps;) {
    const absl::StatusOr<std::vector<Step>> steps = NextSteps(world.state, wanted, options, progress, {});
    if (!steps.ok()) {
      ADD_FAILURE() << steps.status() << " after " << done << " steps";
      return done;
    }
    if (steps->empty()) return done;
    for (const Step& step : *steps) world.Begin(step);
    for (const Step& step : *steps) {
      if (done++ < max_steps) world.End(step);
      Learn(step, progress);
    }
    world.RefreshRouter();
  }
  return max_steps;
}

std::vector<std::string> PlanLines(const ClusterState& state, const Owners& wanted) {
  const absl::StatusOr<std::vector<PlannedStep>> plan = MakePlan(state, wanted, kOptions);
  EXPECT_TRUE(plan.ok()) << plan.status();
  std::vector<std::string> lines;
  if (!plan.ok()) return lines;
  for (const PlannedStep& planned : *plan) {
    lines.push_back(std::to_string(planned.round) + " " + DescribeStep(planned.step));
  }
  return lines;
}

TEST(ClusterPlanTest, TwoGroupsBecomeThree) {
  EXPECT_THAT(
      PlanLines(MakeCluster({2, 2, 2}, OwnersOf({0, 1})), OwnersOf({0, 1, 2})),
      ElementsAre("0 set the layout: g0 0-2047, g1 2048-4095; by g0a", "1 wait until the routers use layout 1, and 3s",
                  "2 bootstrap g1a (g1) with slots 1365-4095 from g0a, g1b, about 4.00 MiB",
                  "2 bootstrap g2a (g2) with slots 2730-4095 from g1b, about 2.00 MiB",
                  "3 bootstrap g1b (g1) with slots 1365-4095 from g1a, about 2.67 MiB",
                  "3 bootstrap g2b (g2) with slots 2730-4095 from g2a, about 1.33 MiB",
                  "4 wait until the routers know which slots the servers hold, and 3s",
                  "5 set the layout: g0 0-1364, g1 1365-2729, g2 2730-4095; by g0a",
                  "6 wait until the routers use layout 2, and 3s",
                  "7 trim g0a (g0) with slots 0-1364 from g0b, about 2.00 MiB",
                  "7 trim g1a (g1) with slots 1365-2729 from g1b, about 2.67 MiB",
                  "8 trim g0b (g0) with slots 0-1364 from g0a, about 1.33 MiB",
                  "8 trim g1b (g1) with slots 1365-2729 from g1a, about 1.33 MiB"));
}

TEST(ClusterPlanTest, ThreeGroupsBecomeTwo) {
  EXPECT_THAT(
      PlanLines(MakeCluster({2, 2, 2}, OwnersOf({0, 1, 2}), 7), OwnersOf({0, 1})),
      ElementsAre("0 wait until the routers use layout 7, and 3s",
                  "1 bootstrap g0a (g0) with slots 0-2047 from g0b, g1a, about 2.67 MiB",
                  "1 bootstrap g1b (g1) with slots 1365-4095 from g1a, g2a, about 2.67 MiB",
                  "2 bootstrap g0b (g0) with slots 0-2047 from g0a, about 2.00 MiB",
                  "2 bootstrap g1a (g1) with slots 1365-4095 from g1b, about 2.67 MiB",
                  "3 wait until the routers know which slots the servers hold, and 3s",
                  "4 set the layout: g0 0-2047, g1 2048-4095; by g0a", "5 wait until the routers use layout 8, and 3s",
                  "6 trim g1a (g1) with slots 2048-4095 from g1b, about 2.67 MiB", "6 unload from g2a (g2)",
                  "7 trim g1b (g1) with slots 2048-4095 from g1a, about 2.00 MiB", "7 unload from g2b (g2)"));
}

struct Case {
  std::vector<int> num_servers;
  std::vector<int> before, after;
  const char* held;
};

const std::vector<Case> kCases = {
    {{2, 2, 2},
     {0, 1},
     {0, 1, 2},
     "g0a 0-1364, g0b 0-1364, g1a 1365-2729, g1b 1365-2729, g2a 2730-4095, g2b 2730-4095"},
    {{2, 2, 2}, {0, 1, 2}, {0, 1}, "g0a 0-2047, g0b 0-2047, g1a 2048-4095, g1b 2048-4095"},
    {{2, 1}, {0}, {0, 1}, "g0a 0-2047, g0b 0-2047, g1a 2048-4095"},
    {{2, 2, 3, 2},
     {0, 1, 2, 3},
     {0, 2, 3},
     "g0a 0-1364, g0b 0-1364, g2a 1365-2729, g2b 1365-2729, g2c 1365-2729, g3a 2730-4095, g3b 2730-4095"},
    {{2, 2}, {0, 1}, {1, 0}, "g0a 2048-4095, g0b 2048-4095, g1a 0-2047, g1b 0-2047"},
    {{2, 2}, {0}, {1}, "g1a 0-4095, g1b 0-4095"},
};

TEST(ClusterPlanTest, AllSlotsAreServedWhileGroupsComeAndGo) {
  for (const Case& one : kCases) {
    for (const uint64_t revision : {0, 5}) {
      SCOPED_TRACE(std::string(one.held) + " from revision " + std::to_string(revision));
      ClusterWorld world(MakeCluster(one.num_servers, OwnersOf(one.before), revision));
      EXPECT_GT(CarryOut(world, OwnersOf(one.after)), 3);
      EXPECT_EQ(world.Held(), one.held);
      EXPECT_EQ(world.state.owners, OwnersOf(one.after));
      EXPECT_EQ(CarryOut(world, OwnersOf(one.after)), 0) << "a second run has something to do";
    }
  }
}

TEST(ClusterPlanTest, ARunGoesOnAfterOneThatStoppedAnywhere) {
  for (const Case& one : kCases) {
    ClusterWorld whole(MakeCluster(one.num_servers, OwnersOf(one.before)));
    const int num_steps = CarryOut(whole, OwnersOf(one.after));
    for (int stop = 0; stop <= num_steps; ++stop) {
      SCOPED_TRACE(std::string(one.held) + " after " + std::to_string(stop) + " steps");
      ClusterWorld world(MakeCluster(one.num_servers, OwnersOf(one.before)));
      CarryOut(world, OwnersOf(one.after), stop);
      world.CutOff();
      CarryOut(world, OwnersOf(one.after));
      EXPECT_EQ(world.Held(), one.held);
      EXPECT_EQ(world.state.owners, OwnersOf(one.after));
    }
  }
}

TEST(ClusterPlanTest, ARunTurnsBackOneThatStoppedAnywhere) {
  for (const Case& one : kCases) {
    for (int stop = 0; stop < 25; ++stop) {
      SCOPED_TRACE(std::string(one.held) + " after " + std::to_string(stop) + " steps");
      ClusterWorld world(MakeCluster(one.num_servers, OwnersOf(one.before)));
      const std::string before = world.Held();
      CarryOut(world, OwnersOf(one.after), stop);
      world.CutOff();
      CarryOut(world, OwnersOf(one.before));
      EXPECT_EQ(world.Held(), before);
    }
  }
}

TEST(ClusterPlanTest, NothingIsToDoForThePresentLayout) {
  EXPECT_THAT(PlanLines(MakeCluster({2, 2}, OwnersOf({0, 1})), OwnersOf({0, 1})), IsEmpty());
  EXPECT_THAT(PlanLines(MakeCluster({2, 2}, OwnersOf({0, 1}), 3), OwnersOf({0, 1})), IsEmpty());
}

TEST(ClusterPlanTest, AnEmptyServerGetsTheSlotsOfItsGroup) {
  ClusterState state = MakeCluster({2, 2}, OwnersOf({0, 1}));
  state.groups[1].replicas[0].held.reset();
  EXPECT_THAT(PlanLines(state, OwnersOf({0, 1})),
              ElementsAre("0 bootstrap g1a (g1) with slots 2048-4095 from g1b, about 2.00 MiB"));
}

TEST(ClusterPlanTest, TheOnlyServerThatAnswersForItsGroupIsNotTaken) {
  ClusterState state = MakeCluster({2, 1, 1}, OwnersOf({0, 1}));
  absl::StatusOr<std::vector<PlannedStep>> plan = MakePlan(state, OwnersOf({0, 1, 2}), kOptions);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      plan.status().message(),
      AllOf(HasSubstr("g1a is the only server that answers for group g1, slots 2048-4095"), HasSubstr("--allow-gaps")));
  // It is also the only one if the other server of its group does not answer.
  state = MakeCluster({2, 2, 1}, OwnersOf({0, 1}));
  state.groups[1].replicas[1].problem = "does not answer";
  plan = MakePlan(state, OwnersOf({0, 1, 2}), kOptions);
  EXPECT_THAT(plan.status().message(), HasSubstr("g1a is the only server"));

  ClusterWorld world(MakeCluster({2, 1, 1}, OwnersOf({0, 1})));
  world.allows_gaps = true;
  CarryOut(world, OwnersOf({0, 1, 2}), 1000, {.grace = absl::ZeroDuration(), .allow_gaps = true});
  EXPECT_EQ(world.Held(), "g0a 0-1364, g0b 0-1364, g1a 1365-2729, g2a 2730-4095");
}

TEST(ClusterPlanTest, AServerIsTakenOnlyWhenTheRouterUsesAnother) {
  ClusterState state = MakeCluster({2, 2, 1}, OwnersOf({0, 1}), 4);
  ReplicaState& bootstrapped = state.groups[1].replicas[1];
  bootstrapped.held = collection::SlotRange{1365, 4096};
  bootstrapped.is_ready = false;
  bootstrapped.state = "left out: it lags";
  const Progress settled = {.settled_revision = 4};
  absl::StatusOr<std::vector<Step>> steps = NextSteps(state, OwnersOf({0, 1, 2}), kOptions, settled, {});
  ASSERT_TRUE(steps.ok());
  // Group g1 has to wait for g1b. Its other server may be read from meanwhile.
  ASSERT_THAT(*steps, SizeIs(1));
  EXPECT_EQ(std::get<Bootstrap>(steps->front()).address, "g2a");
  state.groups[2].replicas[0].held = collection::SlotRange{2730, 4096};
  steps = NextSteps(state, OwnersOf({0, 1, 2}), kOptions, settled, {});
  ASSERT_TRUE(steps.ok());
  EXPECT_THAT(*steps, ElementsAre(Step(WaitForReplica{.group = "g1", .address = "g1b"})));
  EXPECT_EQ(WhatIsMissing(steps->front(), state, {}), "g1b (g1) is left out: it lags");
}

TEST(ClusterPlanTest, ServersThatDoNotAnswerAreLeftAlone) {
  ClusterWorld world(MakeCluster({3, 3, 2}, OwnersOf({0, 1})));
  for (GroupState& group : world.state.groups) {
    group.replicas.back().problem = "does not answer";
    group.replicas.back().is_ready = false;
  }
  CarryOut(world, OwnersOf({0, 1, 2}));
  EXPECT_EQ(world.Held(),
            "g0a 0-1364, g0b 0-1364, g0c 0-2047, g1a 1365-2729, g1b 1365-2729, g1c 2048-4095, g2a 2730-4095");
  // When they are back, the same command completes them.
  for (GroupState& group : world.state.groups) group.replicas.back().problem.clear();
  world.RefreshRouter();
  CarryOut(world, OwnersOf({0, 1, 2}));
  EXPECT_THAT(world.Held(), AllOf(HasSubstr("g0c 0-1364"), HasSubstr("g1c 1365-2729"), HasSubstr("g2b 2730-4095")));
}

TEST(ClusterPlanTest, WrongGroupsAreRefused) {
  ClusterState state = MakeCluster({2, 2}, OwnersOf({0, 1}));
  EXPECT_EQ(MakePlan(state, OwnersOf({0, 7}), kOptions).status().message(), "no group \"g7\"; the router has g0, g1");
  state = MakeCluster({2, 2, 2}, OwnersOf({0, 1}));
  for (ReplicaState& replica : state.groups[2].replicas) replica.problem = "does not answer";
  EXPECT_EQ(MakePlan(state, OwnersOf({0, 1, 2}), kOptions).status().message(),
            "no server of group g2 answers: g2a does not answer; g2b does not answer");
}

TEST(ClusterPlanTest, SlotsThatNobodyHoldsAreNamed) {
  ClusterState state = MakeCluster({1, 2}, OwnersOf({0, 1}), 2);
  state.groups[0].replicas[0].problem = "does not answer";
  const absl::Status status = MakePlan(state, OwnersOf({1}), kOptions).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("no servers that answer hold slots 0-4095 together, which g1a (g1)"));
}

TEST(ClusterPlanTest, WithoutALayoutGroupsMustHoldEachSlotOnce) {
  ClusterState state = MakeCluster({2, 2}, OwnersOf({0, 1}));
  state.groups[0].replicas[1].held = collection::SlotRange{0, 100};
  EXPECT_THAT(CurrentOwners(state).status().message(),
              HasSubstr("the servers of group g0 hold different slots: g0a holds 0-2047, g0b holds 0-99"));
  state.groups[0].replicas[0].held = collection::SlotRange{0, 100};
  EXPECT_THAT(CurrentOwners(state).status().message(), HasSubstr("no group holds slot 100"));
  for (ReplicaState& replica : state.groups[0].replicas) replica.held = collection::SlotRange{0, 2100};
  EXPECT_THAT(CurrentOwners(state).status().message(), HasSubstr("more than one group holds slot 2048"));
  for (ReplicaState& replica : state.groups[0].replicas) replica.held.reset();
  EXPECT_THAT(CurrentOwners(state).status().message(), HasSubstr("no group holds slot 0"));
}

TEST(ClusterPlanTest, TheNearestAndFreshestSourcesAreRead) {
  ClusterState state = MakeCluster({3, 3, 1}, OwnersOf({0, 1}), 1);
  state.groups[0].replicas[0].lag = 7;
  state.groups[0].replicas[1].is_ready = false;
  state.groups[0].replicas[2].lag = 3;
  const auto sources = [&](const collection::SlotRange& slots, const std::string& target) {
    const auto may_read = [&](const ReplicaState& replica) { return replica.address != target; };
    std::string text;
    const auto chosen = ChooseSources(state, "g1", slots, may_read);
    if (!chosen.has_value()) return std::string("none");
    for (const ReplicaState* const source : *chosen) text += source->address + " ";
    return text;
  };
  EXPECT_EQ(sources({1365, 4096}, "g1a"), "g0c g1b ");
  state.groups[0].replicas[2].problem = "does not answer";
  EXPECT_EQ(sources({1365, 4096}, "g1a"), "g0a g1b ");
  state.groups[0].replicas[0].problem = "does not answer";
  EXPECT_EQ(sources({1365, 4096}, "g1a"), "g0b g1b ") << "a server that the router does not use is better than none";
  state.groups[0].replicas[1].problem = "does not answer";
  EXPECT_EQ(sources({1365, 4096}, "g1a"), "none");
}

TEST(ClusterPlanTest, AReplacedServerGetsItsGroupsSlots) {
  ClusterState state = MakeCluster({2, 2, 1}, OwnersOf({0, 1}));
  state.groups[1].replicas[1].held = collection::SlotRange{5, 6};  // of an earlier use
  absl::StatusOr<Bootstrap> step = PlanReplacement(state, "g1b", kOptions);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(DescribeStep(*step), "bootstrap g1b (g1) with slots 2048-4095 from g1a, about 2.00 MiB");
  step = PlanReplacement(state, "g0a", kOptions);
  EXPECT_THAT(step.status().message(), HasSubstr("hold different slots"));
  state.groups[1].replicas[1].held.reset();
  step = PlanReplacement(state, "g0a", kOptions);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->sources, std::vector<std::string>{"g0b"});
  state.groups[0].replicas[1].is_ready = false;
  EXPECT_THAT(PlanReplacement(state, "g0a", kOptions).status().message(), HasSubstr("does not use g0b yet"));
  EXPECT_THAT(PlanReplacement(state, "g1a", kOptions).status().message(), HasSubstr("the only server"));
  EXPECT_THAT(PlanReplacement(state, "g1a", {.allow_gaps = true}).status().message(), HasSubstr("no servers"));
  EXPECT_THAT(PlanReplacement(state, "g2a", kOptions).status().message(), HasSubstr("answers for no slots"));
  EXPECT_THAT(PlanReplacement(state, "g9a", kOptions).status().message(), HasSubstr("no group of the router has"));
  state.groups[1].replicas[1].problem = "is loading its collections";
  EXPECT_THAT(PlanReplacement(state, "g1b", kOptions).status().message(),
              HasSubstr("g1b (g1) is loading its collections"));
}

TEST(ClusterPlanTest, EstimatesCountTheLongestStepOfARound) {
  const auto plan = MakePlan(MakeCluster({2, 2, 2}, OwnersOf({0, 1})), OwnersOf({0, 1, 2}), kOptions);
  ASSERT_TRUE(plan.ok());
  // Rounds of 4, 2.67, 2.67 and 1.33 MiB, and three grace periods of 3 s.
  EXPECT_NEAR(absl::ToDoubleSeconds(EstimateDuration(*plan, 1 << 20)), 9 + 4 + 2.667 + 2.667 + 1.333, 0.01);
  EXPECT_EQ(DescribeDuration(absl::Seconds(119)), "119 s");
  EXPECT_EQ(DescribeDuration(absl::Seconds(121)), "3 min");
  EXPECT_EQ(DescribeDuration(absl::Minutes(60)), "1 h");
  EXPECT_EQ(DescribeDuration(absl::Minutes(61)), "1 h 1 min");
}

}  // namespace
}  // namespace maxsim::ctl::cluster
