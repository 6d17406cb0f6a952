#include <set>

#include "tests/support/scheduler_fixture.h"

namespace maxsim::batching {
namespace {

using testing::HasSubstr;
using testing::Not;

class AdmissionTest : public SchedulerTest {
 protected:
  uint64_t WorkOf(int32_t number) { return MakeJob(number)->work; }
};

TEST_F(AdmissionTest, AnAcceptedJobIsScoredAndAnsweredOnce) {
  Start({});
  ASSERT_TRUE(Submit(3));
  ASSERT_TRUE(WaitFor(3).ok());
  scheduler_ = nullptr;
  const MutexLock lock(&mutex_);
  ASSERT_EQ(answers_[3].size(), 1u);
  const engine::JobResult& result = *answers_[3][0];
  ASSERT_EQ(result.queries.size(), 1u);
  EXPECT_EQ(result.queries[0].hits.size(), static_cast<size_t>(kNumDocuments));
  EXPECT_GE(result.queue_time, absl::ZeroDuration());
  EXPECT_EQ(result.kernel_time, absl::Seconds(0.5));
}

TEST_F(AdmissionTest, WorkBeyondTheBoundIsRejectedAndTheJobStaysWithTheCaller) {
  Start({.max_queue_work = WorkOf(5) + WorkOf(6)});
  OccupyLanes();
  ASSERT_TRUE(Submit(5));
  ASSERT_TRUE(Submit(6));
  auto job = MakeJob(1);
  const absl::Status status = scheduler_->Submit(job);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr(std::to_string(WorkOf(5) + WorkOf(6))));
  EXPECT_THAT(status.message(), HasSubstr("this one has " + std::to_string(WorkOf(1))));
  ASSERT_NE(job, nullptr);
  EXPECT_EQ(job->queries.size(), 1u);
  EXPECT_EQ(scheduler_->stats().queued_jobs, 2);
  EXPECT_EQ(scheduler_->stats().queued_work, WorkOf(5) + WorkOf(6));
  EXPECT_EQ(scheduler_->stats().running_jobs, 1);

  // The refused job is accepted once the queue has space for it.
  backend_.Open();
  ASSERT_TRUE(WaitFor(6).ok());
  EXPECT_TRUE(scheduler_->Submit(job).ok());
  EXPECT_EQ(job, nullptr);
  EXPECT_TRUE(WaitFor(1).ok());
  EXPECT_THAT(Series("maxsim_rejections_total{reason=\"queue_full\"}"), HasSubstr(" 1"));
}

TEST_F(AdmissionTest, AnEmptyQueueAdmitsAJobOfAnySize) {
  Start({.max_queue_work = 1});
  OccupyLanes();
  ASSERT_TRUE(Submit(500));
  EXPECT_EQ(Submit(MakeJob(1)).code(), absl::StatusCode::kResourceExhausted);
  backend_.Open();
  EXPECT_TRUE(WaitFor(500).ok());
}

TEST_F(AdmissionTest, AJobOfSaturatedWorkDoesNotOverflowTheQueue) {
  Start({.max_queue_work = UINT64_MAX});
  OccupyLanes();
  auto huge = MakeJob(500);
  huge->work = UINT64_MAX;
  ASSERT_TRUE(Submit(std::move(huge)).ok());
  EXPECT_EQ(Submit(MakeJob(1)).code(), absl::StatusCode::kResourceExhausted);
  backend_.Open();
  EXPECT_TRUE(WaitFor(500).ok());
  EXPECT_EQ(scheduler_->stats().queued_work, 0u);
}

TEST_F(AdmissionTest, TheBytesThatWaitAreBoundedUnlessTheQueueIsEmpty) {
  Start({.max_queue_bytes = 1000});
  OccupyLanes();
  const auto submit = [&](int32_t number, uint64_t bytes) {
    auto job = MakeJob(number);
    job->bytes = bytes;
    return Submit(std::move(job));
  };
  ASSERT_TRUE(submit(1, 5000).ok()) << "one job can always wait";
  EXPECT_EQ(scheduler_->stats().queued_bytes, 5000u);
  EXPECT_EQ(Series("maxsim_queue_bytes"), "maxsim_queue_bytes 5000");
  const absl::Status status = submit(2, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(),
              HasSubstr("requests of 5000 bytes wait, of at most 1000 (batching.max_queue_bytes), and this one has 1"));
  EXPECT_EQ(submit(2, UINT64_MAX).code(), absl::StatusCode::kResourceExhausted);
  backend_.Open();
  ASSERT_TRUE(WaitFor(1).ok());
  EXPECT_EQ(scheduler_->stats().queued_bytes, 0u);
  OccupyLanes();
  ASSERT_TRUE(submit(3, 600).ok());
  ASSERT_TRUE(submit(4, 400).ok());
  EXPECT_EQ(submit(5, 1).code(), absl::StatusCode::kResourceExhausted);
  backend_.Open();
  ASSERT_TRUE(WaitFor(4).ok());
  EXPECT_EQ(Series("maxsim_queue_bytes"), "maxsim_queue_bytes 0");
  EXPECT_THAT(Series("maxsim_rejections_total{reason=\"queue_full\"}"), HasSubstr(" 3"));
}

TEST_F(AdmissionTest, TheNumberOfJobsIsBounded) {
  Start({.max_queue_jobs = 2});
  OccupyLanes();
  ASSERT_TRUE(Submit(1));
  ASSERT_TRUE(Submit(2));
  const absl::Status status = Submit(MakeJob(3));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("2 requests wait, of at most 2 (batching.max_queue_jobs)"));
}

TEST_F(AdmissionTest, TheRetryDelayIsTheQueueOverTheRateOfScoring) {
  Start({});
  // Before a scoring rate has been measured, the delay is 50 ms with a random deviation of up to 20 %, so that clients
  // do not all retry at the same time.
  std::set<absl::Duration> delays;
  for (int idx = 0; idx < 100; ++idx) delays.insert(scheduler_->RetryDelay());
  EXPECT_GE(*delays.begin(), absl::Milliseconds(40));
  EXPECT_LE(*delays.rbegin(), absl::Milliseconds(60));
  EXPECT_GT(*delays.rbegin() - *delays.begin(), absl::Milliseconds(5));
  backend_.OnTopK([](absl::Span<const Query>) {
    absl::SleepFor(absl::Milliseconds(20));
    return absl::OkStatus();
  });
  ASSERT_TRUE(Submit(100));
  ASSERT_TRUE(WaitFor(100).ok());
  EXPECT_GE(scheduler_->RetryDelay(), absl::Milliseconds(1));  // the queue is empty
  EXPECT_LE(scheduler_->RetryDelay(), absl::Milliseconds(1.5));
  OccupyLanes();
  // The ten jobs together have ten times the work of the measured job, which took at least 20 ms.
  for (int idx = 0; idx < 10; ++idx) ASSERT_TRUE(Submit(100));
  EXPECT_GE(scheduler_->RetryDelay(), absl::Milliseconds(150));
  EXPECT_LE(scheduler_->RetryDelay(), absl::Seconds(10));
  auto huge = MakeJob(7);
  huge->work = uint64_t{1} << 35;
  ASSERT_TRUE(Submit(std::move(huge)).ok());
  delays.clear();
  for (int idx = 0; idx < 100; ++idx) delays.insert(scheduler_->RetryDelay());
  EXPECT_GE(*delays.begin(), absl::Seconds(6.5));
  EXPECT_LE(*delays.rbegin(), absl::Seconds(10));
  EXPECT_GT(*delays.rbegin() - *delays.begin(), absl::Seconds(1));
}

TEST_F(AdmissionTest, AnErrorOfTheEngineReachesItsJobOnly) {
  Start({});
  OccupyLanes();
  auto bad = MakeJob(4);
  bad->queries[0].tokens.pop_back();
  ASSERT_TRUE(Submit(std::move(bad)).ok());
  ASSERT_TRUE(Submit(5));
  backend_.Open();
  EXPECT_EQ(WaitFor(4).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(WaitFor(5).ok());
  EXPECT_THAT(Series("maxsim_rejections_total{reason=\"invalid\"}"), HasSubstr(" 1"));
}

TEST_F(AdmissionTest, ACallThatFailsDoesNotCountAsAnInvalidRequest) {
  Start({});
  backend_.OnTopK([](absl::Span<const Query>) { return absl::InternalError("unlucky"); });
  ASSERT_TRUE(Submit(3));
  EXPECT_EQ(WaitFor(3).code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Series("maxsim_rejections_total{reason=\"device\"}"), HasSubstr(" 1"));
  EXPECT_THAT(Series("maxsim_rejections_total{reason=\"invalid\"}"), Not(HasSubstr(" 1")));
}

}  // namespace
}  // namespace maxsim::batching
