#include "tests/support/scheduler_fixture.h"

namespace maxsim::batching {
namespace {

using engine::Priority;
using testing::HasSubstr;

// This is long enough for a busy machine to submit a job in, under a sanitizer too.
constexpr absl::Duration kShort = absl::Milliseconds(300);

class DeadlineTest : public SchedulerTest {};

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
  const absl::Time deadline = absl::Now() + kShort;
  ASSERT_TRUE(Submit(3, Priority::kNormal, deadline));
  EXPECT_EQ(WaitFor(3).code(), absl::StatusCode::kDeadlineExceeded);
  // The lanes are still blocked. The bound is generous, since the machine may be busy.
  EXPECT_LT(absl::Now(), deadline + absl::Seconds(2));
  EXPECT_FALSE(Answered(1001));
  EXPECT_EQ(scheduler_->stats().queued_jobs, 0);
  EXPECT_EQ(scheduler_->stats().queued_work, 0u);
}

TEST_F(DeadlineTest, AnEarlierDeadlineThatComesLaterIsKept) {
  Start({});
  OccupyLanes();
  ASSERT_TRUE(Submit(3, Priority::kNormal, absl::Now() + absl::Seconds(60)));
  ASSERT_TRUE(Submit(4, Priority::kLow, absl::Now() + kShort));
  EXPECT_EQ(WaitFor(4).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(Answered(3));
  backend_.Open();
  EXPECT_TRUE(WaitFor(3).ok());
}

TEST_F(DeadlineTest, AnExpiredJobIsNeverScored) {
  Start({});
  OccupyLanes();
  for (int32_t number = 3; number < 40; ++number) {
    ASSERT_TRUE(Submit(number, Priority::kNormal, absl::Now() + kShort));
  }
  for (int32_t number = 3; number < 40; ++number)
    EXPECT_EQ(WaitFor(number).code(), absl::StatusCode::kDeadlineExceeded);
  backend_.Open();
  ASSERT_TRUE(WaitFor(1001).ok());
  EXPECT_EQ(backend_.calls().size(), 1u);
}

TEST_F(DeadlineTest, AJobThatExpiresWhileItIsScoredGetsNoResult) {
  Start({});
  backend_.Close();
  const absl::Time deadline = absl::Now() + absl::Seconds(1);
  ASSERT_TRUE(Submit(3, Priority::kNormal, deadline));
  ASSERT_TRUE(backend_.WaitForCalls(1));
  absl::SleepFor(deadline - absl::Now() + absl::Milliseconds(1));
  backend_.Open();
  const absl::Status status = WaitFor(3);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("while the request was scored"));
}

TEST_F(DeadlineTest, RoomOfExpiredJobsIsGivenToNewOnes) {
  Start({.max_queue_jobs = 1});
  OccupyLanes();
  ASSERT_TRUE(Submit(3, Priority::kNormal, absl::Now() + kShort));
  EXPECT_EQ(WaitFor(3).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Submit(4));
}

}  // namespace
}  // namespace maxsim::batching
