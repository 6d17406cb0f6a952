#include "base/clock/other_clock.h"

#include <gtest/gtest.h>

namespace maxsim {
namespace {

// The other clock is years behind this one, and was really this far behind.
constexpr absl::Duration kBehind = absl::Hours(24 * 365);
const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

TEST(OtherClockTest, KnowsNothingBeforeItWasToldATime) {
  OtherClock clock;
  EXPECT_EQ(clock.At(kNow), std::nullopt);
  clock.Observe(kNow - kBehind, kNow);
  EXPECT_TRUE(clock.At(kNow).has_value());
  clock.Reset();
  EXPECT_EQ(clock.At(kNow), std::nullopt);
}

TEST(OtherClockTest, ADeadlineIsEarlyByTheTimeThatTheMessageTook) {
  OtherClock clock;
  const absl::Duration took = absl::Milliseconds(3);
  clock.Observe(kNow - kBehind - took, kNow);
  EXPECT_EQ(*clock.At(kNow + absl::Seconds(5)), kNow + absl::Seconds(5) - kBehind - took);
}

TEST(OtherClockTest, TheQuickestMessageCountsUntilItIsOld) {
  OtherClock clock;
  const auto observe = [&](absl::Duration after, absl::Duration took) {
    clock.Observe(kNow + after - took - kBehind, kNow + after);
  };
  const auto early = [&] { return kNow - kBehind - *clock.At(kNow); };
  observe(absl::ZeroDuration(), absl::Milliseconds(3));
  observe(absl::Seconds(1), absl::Seconds(1));
  EXPECT_EQ(early(), absl::Milliseconds(3));
  observe(absl::Seconds(2), absl::Milliseconds(2));
  EXPECT_EQ(early(), absl::Milliseconds(2));
  observe(absl::Seconds(2) + OtherClock::kMaxAge - absl::Nanoseconds(1), absl::Milliseconds(9));
  EXPECT_EQ(early(), absl::Milliseconds(2));
  // The clocks may have run apart by now.
  observe(absl::Seconds(2) + OtherClock::kMaxAge, absl::Milliseconds(9));
  EXPECT_EQ(early(), absl::Milliseconds(9));
}

}  // namespace
}  // namespace maxsim
