#include "tests/support/scheduler_fixture.h"

namespace maxsim::batching {
namespace {

using engine::Priority;
using testing::HasSubstr;

class DeadlineTest : public SchedulerTest {
 protected:
  // Submits a job with a deadline of 20 ms. If the deadline passes before Submit, as on a busy machine, doubles the
  // time and submits the job again.
  void SubmitShort(int32_t number, Priority priority = Priority::kNormal) {
    absl::Status status = absl::DeadlineExceededError("");
    for (absl::Duration time = absl::Milliseconds(20); absl::IsDeadlineExceeded(status); time *= 2) {
      auto job = MakeJob(number);
      job->priority = priority;
      job->deadline = absl::Now() + time;
      status = scheduler_->Submit(job);
    }
    ASSERT_TRUE(status.ok()) << status;
  }
};

TEST_F(DeadlineTest, AJobThatArrivesTooLateIsNotAccepted) {
  Start({});
  auto job = MakeJob(3);
  job->deadline = absl::Now() - absl::Milliseconds(1);
  EXPECT_EQ(scheduler_->Submit(job).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(job, nullptr);
  EXPECT_THAT(Series("maxsim_rejections_total{reason=\"deadline\"}"), HasSubstr(" 1"));
}

TEST_F(DeadlineTest, AJobExpiresOnTimeWhileEveryLaneIsBusy) {
  Start({}, 2);
  OccupyLanes(2);
  SubmitShort(3);
  EXPECT_EQ(WaitFor(3).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(Answered(1001));
  EXPECT_EQ(scheduler_->stats().queued_jobs, 0);
  EXPECT_EQ(scheduler_->stats().queued_work, 0u);
}

TEST_F(DeadlineTest, AnEarlierDeadlineThatComesLaterIsKept) {
  Start({});
  OccupyLanes();
  ASSERT_TRUE(Submit(3, Priority::kNormal, absl::Now() + absl::Hours(1)));
  SubmitShort(4, Priority::kLow);
  EXPECT_EQ(WaitFor(4).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(Answered(3));
  backend_.Open();
  EXPECT_TRUE(WaitFor(3).ok());
}

TEST_F(DeadlineTest, AnExpiredJobIsNeverScored) {
  Start({});
  OccupyLanes();
  for (int32_t number = 3; number < 40; ++number) SubmitShort(number);
  for (int32_t number = 3; number < 40; ++number)
    EXPECT_EQ(WaitFor(number).code(), absl::StatusCode::kDeadlineExceeded);
  backend_.Open();
  ASSERT_TRUE(WaitFor(1001).ok());
  EXPECT_EQ(backend_.calls().size(), 1u);
}

TEST_F(DeadlineTest, AJobThatExpiresWhileItIsScoredGetsNoResult) {
  Start({});
  auto job = MakeJob(3);
  backend_.OnTopK([scored = job.get()](absl::Span<const Query>) {
    scored->deadline = absl::InfinitePast();
    return absl::OkStatus();
  });
  ASSERT_TRUE(Submit(std::move(job)).ok());
  const absl::Status status = WaitFor(3);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("while the request was scored"));
}

TEST_F(DeadlineTest, RoomOfExpiredJobsIsGivenToNewOnes) {
  Start({.max_queue_jobs = 1});
  OccupyLanes();
  SubmitShort(3);
  EXPECT_EQ(WaitFor(3).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Submit(4));
}

}  // namespace
}  // namespace maxsim::batching
