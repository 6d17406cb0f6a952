#include "tests/support/scheduler_fixture.h"

namespace maxsim::batching {
namespace {

using testing::HasSubstr;

class DeviceLossTest : public SchedulerTest {};

TEST_F(DeviceLossTest, RunningQueuedAndLaterJobsAreUnavailable) {
  Start({.max_batch_queries = 1});
  OccupyLanes();
  for (int32_t number = 1; number <= 3; ++number) ASSERT_TRUE(Submit(number));
  backend_.OnTopK([](absl::Span<const Query>) { return absl::UnavailableError("Xid 79"); });
  backend_.Open();
  for (int32_t number : {1001, 1, 2, 3}) {
    const absl::Status status = WaitFor(number);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), HasSubstr("Xid 79"));
  }
  // A lost device does not recover by itself. So later jobs are refused although calls would succeed now.
  backend_.OnTopK(nullptr);
  ASSERT_TRUE(Eventually([this] { return absl::IsUnavailable(Submit(MakeJob(9))); }));
  const absl::Status later = Submit(MakeJob(5));
  EXPECT_EQ(later.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(later.message(), HasSubstr("the device is lost: Xid 79"));
  EXPECT_THAT(Series("maxsim_rejections_total{reason=\"device\"}"), testing::Not(""));
}

TEST_F(DeviceLossTest, ADeviceThatIsFoundDeadIsNotAsked) {
  Start({});
  OccupyLanes();
  ASSERT_TRUE(Submit(1));
  backend_.SetHealth(absl::UnavailableError("ECC error"));
  devices_.Poll();
  EXPECT_TRUE(absl::IsUnavailable(Submit(MakeJob(2))));
  // Jobs in the queue must fail at once, although the lane is still blocked.
  EXPECT_EQ(WaitFor(1).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(scheduler_->stats().queued_jobs, 0);
}

TEST_F(DeviceLossTest, ALostDeviceCanBeShutDown) {
  Start({}, 2);
  backend_.OnTopK([](absl::Span<const Query>) { return absl::UnavailableError("gone"); });
  ASSERT_TRUE(Submit(1));
  EXPECT_EQ(WaitFor(1).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(scheduler_->Shutdown(absl::InfiniteFuture()), 0);
}

}  // namespace
}  // namespace maxsim::batching
