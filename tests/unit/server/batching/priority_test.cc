#include "tests/support/scheduler_fixture.h"

namespace maxsim::batching {
namespace {

using engine::Priority;
using testing::ElementsAre;

class PriorityTest : public SchedulerTest {};

TEST_F(PriorityTest, HigherPriorityGoesFirstAndArrivalDecidesWithin) {
  Start({.max_batch_queries = 1, .starvation_limit = absl::InfiniteDuration()});
  OccupyLanes();
  ASSERT_TRUE(Submit(1, Priority::kLow));
  ASSERT_TRUE(Submit(2, Priority::kNormal));
  ASSERT_TRUE(Submit(3, Priority::kHigh));
  ASSERT_TRUE(Submit(4, Priority::kLow));
  ASSERT_TRUE(Submit(5, Priority::kNormal));
  ASSERT_TRUE(Submit(6, Priority::kHigh));
  backend_.Open();
  ASSERT_TRUE(WaitFor(4).ok());
  EXPECT_THAT(Batches(1), ElementsAre(ElementsAre(3), ElementsAre(6), ElementsAre(2), ElementsAre(5), ElementsAre(1),
                                      ElementsAre(4)));
}

TEST_F(PriorityTest, AStarvingJobGoesBeforeNewerOnesOfHigherPriority) {
  Start({.max_batch_queries = 1, .starvation_limit = absl::Milliseconds(50)});
  OccupyLanes();
  ASSERT_TRUE(Submit(2, Priority::kHigh));  // older than job 1, and served before it
  ASSERT_TRUE(Submit(1, Priority::kLow));
  ASSERT_TRUE(Submit(3, Priority::kHigh));
  absl::SleepFor(absl::Milliseconds(60));
  backend_.Open();
  ASSERT_TRUE(WaitFor(3).ok());
  EXPECT_THAT(Batches(1), ElementsAre(ElementsAre(2), ElementsAre(1), ElementsAre(3)));
}

}  // namespace
}  // namespace maxsim::batching
