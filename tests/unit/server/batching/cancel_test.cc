#include "tests/support/scheduler_fixture.h"

namespace maxsim::batching {
namespace {

using testing::HasSubstr;

class CancelTest : public SchedulerTest {
 protected:
  // Submits job `number` and returns the flag that cancels it.
  std::shared_ptr<std::atomic<bool>> SubmitCancellable(int32_t number) {
    auto job = MakeJob(number);
    job->cancelled = std::make_shared<std::atomic<bool>>(false);
    auto cancelled = job->cancelled;
    EXPECT_TRUE(Submit(std::move(job)).ok());
    return cancelled;
  }
};

TEST_F(CancelTest, ACancelledJobLeavesTheQueueWhileEveryLaneIsBusy) {
  Start({});
  OccupyLanes();
  const auto third = SubmitCancellable(3);
  const auto fourth = SubmitCancellable(4);
  *third = true;
  EXPECT_EQ(WaitFor(3).code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(Answered(1001));
  EXPECT_EQ(scheduler_->stats().queued_jobs, 1);
  backend_.Open();
  EXPECT_TRUE(WaitFor(4).ok());
  EXPECT_EQ(Batches(1), (std::vector<std::vector<int32_t>>{{4}}));
  EXPECT_THAT(Series("maxsim_rejections_total{reason=\"cancelled\"}"), HasSubstr(" 1"));
}

TEST_F(CancelTest, AJobCancelledBeforeItIsSubmittedIsNotScored) {
  Start({});
  auto job = MakeJob(3);
  job->cancelled = std::make_shared<std::atomic<bool>>(true);
  ASSERT_TRUE(Submit(std::move(job)).ok());
  EXPECT_EQ(WaitFor(3).code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(backend_.calls().empty());
}

TEST_F(CancelTest, AJobCancelledWhileItIsScoredGetsNoResult) {
  Start({});
  backend_.Close();
  const auto cancelled = SubmitCancellable(3);
  ASSERT_TRUE(backend_.WaitForCalls(1));
  *cancelled = true;
  backend_.Open();
  EXPECT_EQ(WaitFor(3).code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace maxsim::batching
