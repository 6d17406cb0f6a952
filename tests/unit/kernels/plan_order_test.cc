// Tests when candidates are ordered by length, longest first, before they are scored: only if that saves time.
#include <gtest/gtest.h>

#include "kernels/limits.h"
#include "kernels/plan/order.h"
#include "kernels/plan/plan_score.h"
#include "kernels/plan/score.h"
#include "tests/unit/kernels/plan_fixture.h"

namespace maxsim {
namespace {

// Ordering by length pays off if a long document takes much longer than the others and each thread block has few
// documents. Otherwise ordering takes longer than it saves.
TEST(PlanTest, UnequalDocumentsAreOrdered) {
  const auto order = [](ScalarType type, int32_t dim, int64_t blocks, int64_t documents, int64_t mean,
                        int64_t longest) {
    return PlanOrder(*PlanScore(type, dim, {{blocks, documents}}, kHopper), documents, mean, longest, false);
  };
  const OrderPlan few = order(ScalarType::kF16, 256, 6, 755, 500, 3300);
  EXPECT_EQ(few.unit_octets, 32) << "a block has 357 octets";
  EXPECT_NEAR(few.early_octets, 312, 8) << "7/8 of those";
  EXPECT_EQ(order(ScalarType::kF16, 256, 6, 7550, 500, 3300).unit_octets, 128) << "as many as it may have";
  EXPECT_EQ(order(ScalarType::kF16, 256, 6, 132, 500, 3300).unit_octets, 0) << "a block has one";
  EXPECT_EQ(order(ScalarType::kF16, 256, 6, 755, 500, 700).unit_octets, 0) << "all nearly as long";
  EXPECT_EQ(order(ScalarType::kI8, 64, 6, 755, 50, 300).unit_octets, 0) << "nothing takes long";
  EXPECT_EQ(order(ScalarType::kF16, 256, 6, 100000, 500, 3300).unit_octets, 0) << "a long one is a small part";
  // Half the rows take half the time.
  EXPECT_GT(order(ScalarType::kF16, 128, 6, 755, 100, 700).unit_octets, 0);
  EXPECT_EQ(order(ScalarType::kF16, 128, 3, 755, 100, 700).unit_octets, 0);
  for (int64_t documents : {int64_t{1}, int64_t{100}, kMaxShardDocuments}) {
    const ScorePlan plan = *PlanScore(ScalarType::kF16, 128, {{8, documents}}, kHopper);
    const OrderPlan always = PlanOrder(plan, documents, 1, 1, true);
    EXPECT_TRUE(always.unit_octets >= 32 && always.unit_octets <= 128);
    EXPECT_TRUE(always.early_octets >= 0 && always.early_octets <= kMaxEarlyOctets);
  }
}

}  // namespace
}  // namespace maxsim
