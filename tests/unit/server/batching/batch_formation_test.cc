#include "tests/support/scheduler_fixture.h"

namespace maxsim::batching {
namespace {

using engine::Priority;
using testing::ElementsAre;
using testing::HasSubstr;

class BatchFormationTest : public SchedulerTest {};

TEST_F(BatchFormationTest, WhatGathersWhileLanesAreBusyRunsTogether) {
  Start({});
  OccupyLanes();
  for (int32_t number = 1; number <= 5; ++number) ASSERT_TRUE(Submit(number));
  backend_.Open();
  ASSERT_TRUE(WaitFor(5).ok());
  EXPECT_THAT(Batches(1), ElementsAre(ElementsAre(1, 2, 3, 4, 5)));
  EXPECT_THAT(Series("maxsim_rejections_total{reason=\"queue_full\"}"), testing::Not(HasSubstr(" 1")));
}

TEST_F(BatchFormationTest, AFreeLaneTakesAJobAtOnce) {
  Start({}, 2);
  backend_.Close();
  ASSERT_TRUE(Submit(1));
  ASSERT_TRUE(backend_.WaitForCalls(1));
  ASSERT_TRUE(Submit(2));
  ASSERT_TRUE(backend_.WaitForCalls(2));  // the second lane takes the job, because the first is busy
  EXPECT_EQ(scheduler_->stats().running_jobs, 2);
  EXPECT_EQ(scheduler_->stats().queued_jobs, 0);
}

TEST_F(BatchFormationTest, TheNumberOfQueriesIsBounded) {
  Start({.max_batch_queries = 3});
  OccupyLanes();
  for (int32_t number = 1; number <= 7; ++number) ASSERT_TRUE(Submit(number));
  backend_.Open();
  ASSERT_TRUE(WaitFor(7).ok());
  EXPECT_THAT(Batches(1), ElementsAre(ElementsAre(1, 2, 3), ElementsAre(4, 5, 6), ElementsAre(7)));
}

TEST_F(BatchFormationTest, TheWorkIsBoundedAndALargeJobRunsAlone) {
  const uint64_t unit = MakeJob(1)->work;
  Start({.max_batch_work = 10 * unit});
  OccupyLanes();
  // The numbers are the jobs' work. Jobs 4 and 6 fill a batch of 10 exactly. Job 11 is larger than a batch, so it runs
  // alone. Job 9 does not fit into a batch with job 2, and job 1, submitted last, must not overtake job 9.
  for (int32_t number : {4, 6, 11, 2, 9, 1}) ASSERT_TRUE(Submit(number));
  backend_.Open();
  ASSERT_TRUE(WaitFor(1).ok());
  EXPECT_THAT(Batches(1), ElementsAre(ElementsAre(4, 6), ElementsAre(11), ElementsAre(2), ElementsAre(9, 1)));
}

TEST_F(BatchFormationTest, GenerationsDoNotMixAndKeepTheirOrder) {
  Start({});
  OccupyLanes();
  for (int32_t number = 1; number <= 6; ++number) {
    auto job = MakeJob(number);
    if (number % 2 == 0) job->collection = other_collection_;
    ASSERT_TRUE(Submit(std::move(job)).ok());
  }
  backend_.Open();
  for (int32_t number = 1; number <= 6; ++number) ASSERT_TRUE(WaitFor(number).ok());
  EXPECT_THAT(Batches(1), ElementsAre(ElementsAre(1, 3, 5), ElementsAre(2, 4, 6)));
}

TEST_F(BatchFormationTest, ABatchTakesLowerPrioritiesAlong) {
  Start({});
  OccupyLanes();
  ASSERT_TRUE(Submit(1, Priority::kLow));
  ASSERT_TRUE(Submit(2, Priority::kHigh));
  ASSERT_TRUE(Submit(3, Priority::kNormal));
  backend_.Open();
  ASSERT_TRUE(WaitFor(1).ok());
  EXPECT_THAT(Batches(1), ElementsAre(ElementsAre(2, 3, 1)));
}

TEST_F(BatchFormationTest, AFreeLaneHoldsASmallBatchBackForCompany) {
  Start({.max_batch_delay = absl::Hours(24), .max_batch_queries = 3});
  ASSERT_TRUE(Submit(1));
  ASSERT_TRUE(Submit(2));
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_TRUE(backend_.calls().empty());
  ASSERT_TRUE(Submit(3));  // this job fills the batch, so the batch starts long before the delay is over
  ASSERT_TRUE(WaitFor(3).ok());
  EXPECT_THAT(Batches(0), ElementsAre(ElementsAre(1, 2, 3)));
}

TEST_F(BatchFormationTest, TheDelayEnds) {
  Start({.max_batch_delay = absl::Milliseconds(30)});
  const absl::Time start = absl::Now();
  ASSERT_TRUE(Submit(1));
  ASSERT_TRUE(WaitFor(1).ok());
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(30));
}

TEST_F(BatchFormationTest, MetricsTellBatchesFromQueries) {
  Start({});
  OccupyLanes();
  for (int32_t number = 1; number <= 4; ++number) ASSERT_TRUE(Submit(number));
  EXPECT_THAT(Series("maxsim_queue_jobs"), HasSubstr(" 4"));
  backend_.Open();
  ASSERT_TRUE(WaitFor(4).ok());
  EXPECT_THAT(Series("maxsim_batch_queries_count"), HasSubstr(" 2"));
  EXPECT_THAT(Series("maxsim_batch_queries_sum"), HasSubstr(" 5"));
  EXPECT_TRUE(Eventually([&] { return Series("maxsim_queue_jobs") == "maxsim_queue_jobs 0"; }));
}

}  // namespace
}  // namespace maxsim::batching
