// Tests the conversion of deadlines between gRPC's clocks and the monotonic clock of the server.
#include <cstdint>

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "grpc/support/time.h"
#include "server/grpc/grpc_call.h"

namespace maxsim::rpc {
namespace {

const absl::Time kMonotonicNow = absl::FromUnixSeconds(1'700'000'000);

gpr_timespec At(int64_t seconds, int32_t nanoseconds, gpr_clock_type clock = GPR_CLOCK_MONOTONIC) {
  return {.tv_sec = seconds, .tv_nsec = nanoseconds, .clock_type = clock};
}

TEST(GrpcTimeTest, ADeadlineIsAsFarAwayAsGrpcHasIt) {
  EXPECT_EQ(ToMonotonic(At(112, 500'000'000), At(100, 0), kMonotonicNow), kMonotonicNow + absl::Milliseconds(12'500));
  EXPECT_EQ(ToMonotonic(At(112, 0), At(111, 999'999'999), kMonotonicNow), kMonotonicNow + absl::Nanoseconds(1));
  EXPECT_EQ(ToMonotonic(At(100, 0), At(100, 0), kMonotonicNow), kMonotonicNow);
}

TEST(GrpcTimeTest, ADeadlineOfTheWallClockCountsFromTheWallClock) {
  const gpr_timespec deadline = At(1'000'000'010, 0, GPR_CLOCK_REALTIME);
  EXPECT_EQ(ToMonotonic(deadline, At(1'000'000'000, 0, GPR_CLOCK_REALTIME), kMonotonicNow),
            kMonotonicNow + absl::Seconds(10));
}

TEST(GrpcTimeTest, ADeadlineThatHasPassedStaysPassed) {
  EXPECT_EQ(ToMonotonic(At(90, 0), At(100, 1), kMonotonicNow),
            kMonotonicNow - absl::Seconds(10) - absl::Nanoseconds(1));
}

TEST(GrpcTimeTest, InfinityAndDeadlinesBeyondAYearAreNone) {
  constexpr int64_t kHour = 3600;
  EXPECT_EQ(ToMonotonic(gpr_inf_future(GPR_CLOCK_MONOTONIC), At(100, 0), kMonotonicNow), absl::InfiniteFuture());
  EXPECT_EQ(ToMonotonic(At(100 + 365 * 24 * kHour + 1, 0), At(100, 0), kMonotonicNow), absl::InfiniteFuture());
  EXPECT_EQ(ToMonotonic(At(100 + 365 * 24 * kHour, 0), At(100, 0), kMonotonicNow),
            kMonotonicNow + absl::Hours(365 * 24));
  // A client may send a `grpc-timeout` of up to 99999999H, which is more than 64 bits of nanoseconds can hold.
  for (const int64_t hours : {1'000'000, 2'562'047, 2'562'048, 9'999'999, 99'999'999}) {
    EXPECT_EQ(ToMonotonic(At(100 + hours * kHour, 0), At(100, 0), kMonotonicNow), absl::InfiniteFuture()) << hours;
  }
}

TEST(GrpcTimeTest, ADeadlineFromNowIsOnTheClockThatNobodySets) {
  const gpr_timespec deadline = FromNow(absl::Hours(1));
  EXPECT_EQ(deadline.clock_type, GPR_CLOCK_MONOTONIC);
  const absl::Time converted = ToMonotonic(deadline, gpr_now(GPR_CLOCK_MONOTONIC), MonotonicNow());
  EXPECT_GT(converted, MonotonicNow());
  EXPECT_LE(converted, MonotonicNow() + absl::Hours(1));
}

}  // namespace
}  // namespace maxsim::rpc
