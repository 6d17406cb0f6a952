// Tests that the plan of a top-k selection covers all candidates and stays within the limits of its workspace.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/limits.h"
#include "kernels/plan/select.h"
#include "tests/unit/kernels/plan_fixture.h"

namespace maxsim {
namespace {

TEST(PlanTest, SelectionCoversItsCandidates) {
  for (int64_t candidates : {int64_t{1}, int64_t{31}, int64_t{32}, int64_t{33}, kRankAllCandidates,
                             kRankAllCandidates + 1, int64_t{10000}, int64_t{1} << 20, kMaxShardDocuments}) {
    for (int64_t k : {1, 100, 341, 342, 1000, 2730, 2731, 10000}) {
      if (k > candidates) continue;
      for (int64_t queries : {1, 4, 32, 132, 256}) {
        const SelectPlan plan = PlanSelect(candidates, k, queries, kH200);
        SCOPED_TRACE(testing::Message() << candidates << " candidates, k " << k << ", " << queries
                                        << " queries: " << plan.ToString());
        EXPECT_EQ(plan.large(), candidates > kRankAllCandidates);
        if (!plan.large()) {
          EXPECT_GE(plan.rank_blocks * 32, candidates);
          continue;
        }
        EXPECT_LE(plan.splits * queries, std::max<int64_t>(kH200.num_sms, queries));
        EXPECT_LE(plan.splits, kMaxSelectSplits);
        EXPECT_GE(plan.keys(), k);
        EXPECT_LE(plan.keys() * queries, MostSelectKeys(queries, k * queries, kH200));
        if (plan.buckets == 0) continue;
        EXPECT_EQ(kSelectThreads % plan.buckets, 0);
        EXPECT_GE(plan.buckets, 32);
        EXPECT_GE(plan.splits * plan.buckets, 3 * k);
        EXPECT_LE(plan.splits * plan.buckets, kMaxSelectBuckets);
      }
    }
  }
}

}  // namespace
}  // namespace maxsim
