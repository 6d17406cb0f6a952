// Tests plans that move slots between groups, on random simulated clusters.
#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/tools/cluster_world.h"
#include "tools/maxsimctl/cluster/plan.h"

namespace maxsim::ctl::cluster {
namespace {

const PlanOptions kRandomOptions = {.grace = absl::Seconds(3)};

// Moves a random cluster to random layouts. Calls fail at random and end in any order, and the run is sometimes killed
// and started again.
class RandomRun {
 public:
  explicit RandomRun(uint32_t seed) : random_(seed), world_(Begin()) {}

  void Run() {
    for (int round = Pick(1, 3); round > 0; --round) RunTo(RandomOwners(), /*is_last=*/round == 1);
  }

 private:
  int Pick(int first, int last) { return std::uniform_int_distribution<int>(first, last)(random_); }
  bool Chance(int percent) { return Pick(1, 100) <= percent; }

  // Returns a random layout: some of the groups, in random order, with slot ranges of random sizes.
  Owners RandomOwners() {
    std::vector<int> groups(num_servers_.size());
    for (size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<int>(i);
    std::shuffle(groups.begin(), groups.end(), random_);
    groups.resize(static_cast<size_t>(Pick(1, static_cast<int>(groups.size()))));
    Owners owners = OwnersOf(groups);
    for (size_t i = 1; i < owners.size(); ++i) {
      Owner& left = owners[i - 1];
      Owner& right = owners[i];
      left.slots.end = right.slots.first = Pick(left.slots.first + 1, right.slots.end - 1);
    }
    return owners;
  }

  ClusterState Begin() {
    for (int i = Pick(1, 5); i > 0; --i) num_servers_.push_back(Pick(2, 3));
    ClusterState state = MakeCluster(num_servers_, RandomOwners(), static_cast<uint64_t>(Pick(0, 1)) * 3);
    for (GroupState& group : state.groups) {
      // Two servers of each group answer, so that no plan is refused.
      if (group.replicas.size() == 3 && Chance(40)) group.replicas[static_cast<size_t>(Pick(0, 2))].problem = "is away";
    }
    return state;
  }

  void RunTo(const Owners& wanted, bool is_last) {
    Progress progress;
    std::vector<Step> running;
    for (int turn = 0; turn < 2000; ++turn) {
      ASSERT_FALSE(::testing::Test::HasFailure());
      if (Chance(50)) world_.RefreshRouter();
      const absl::StatusOr<std::vector<Step>> steps =
          NextSteps(world_.state, wanted, kRandomOptions, progress, running);
      ASSERT_TRUE(steps.ok()) << steps.status();
      if (steps->empty() && running.empty()) return CheckEnd(wanted);
      for (const Step& step : *steps) {
        world_.Begin(step);
        running.push_back(step);
      }
      if (Chance(5)) {  // the run is killed; each of its calls has succeeded, or has had no effect
        for (const Step& step : running) {
          if (!IsWait(step)) world_.End(step, Chance(50));
        }
        running.clear();
        progress = {};
        if (!is_last && Chance(50)) return;
        continue;
      }
      const size_t ending = static_cast<size_t>(Pick(0, static_cast<int>(running.size()) - 1));
      const Step step = running[ending];
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(ending));
      const bool succeeds = IsWait(step) || Chance(90);
      world_.End(step, succeeds);
      if (succeeds) Learn(step, progress);
    }
    FAIL() << "no end";
  }

  static bool IsWait(const Step& step) {
    return std::holds_alternative<WaitForRouters>(step) || std::holds_alternative<WaitForReplica>(step);
  }

  void CheckEnd(const Owners& wanted) {
    if (world_.state.revision > 0) {
      EXPECT_EQ(world_.state.owners, wanted);
    }
    for (const GroupState& group : world_.state.groups) {
      for (const ReplicaState& replica : group.replicas) {
        if (!replica.answers()) continue;
        EXPECT_EQ(replica.held, SlotsOf(wanted, group.name)) << replica.address;
      }
    }
  }

  std::mt19937 random_;
  std::vector<int> num_servers_;
  ClusterWorld world_;
};

TEST(ClusterPlanRandomTest, RandomClustersNeverLoseASlot) {
  constexpr uint32_t kSeeds = test::kSanitized ? 80 : 400;
  for (uint32_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomRun(seed).Run();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace maxsim::ctl::cluster
