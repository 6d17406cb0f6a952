#include "server/encoder/circuit_breaker.h"

#include <gtest/gtest.h>

namespace maxsim::encoder {
namespace {

using State = CircuitBreaker::State;

const absl::Time kNow = absl::UnixEpoch();

TEST(CircuitBreakerTest, OnlyFailuresInARowOpenIt) {
  CircuitBreaker breaker(2, absl::Seconds(5));
  EXPECT_FALSE(breaker.OnFailure(kNow, "a"));
  breaker.OnSuccess();
  EXPECT_FALSE(breaker.OnFailure(kNow, "b"));
  EXPECT_TRUE(breaker.Admit(kNow).ok());
  EXPECT_TRUE(breaker.OnFailure(kNow, "c"));
  EXPECT_EQ(breaker.state(), State::kOpen);
  EXPECT_FALSE(breaker.MayCall());
  EXPECT_FALSE(breaker.Admit(kNow + absl::Seconds(4.9)).ok());
}

TEST(CircuitBreakerTest, OneProbeDecides) {
  CircuitBreaker breaker(1, absl::Seconds(5));
  EXPECT_TRUE(breaker.OnFailure(kNow, "a"));
  const absl::Time later = kNow + absl::Seconds(5);
  EXPECT_TRUE(breaker.Admit(later).ok());
  EXPECT_EQ(breaker.state(), State::kHalfOpen);
  EXPECT_TRUE(breaker.Admit(later).ok());
  EXPECT_TRUE(breaker.MayCall());
  breaker.OnCall();
  EXPECT_FALSE(breaker.MayCall());
  EXPECT_FALSE(breaker.Admit(later).ok());
  EXPECT_TRUE(breaker.OnFailure(later, "b"));
  EXPECT_FALSE(breaker.Admit(later + absl::Seconds(4)).ok());
  EXPECT_TRUE(breaker.Admit(later + absl::Seconds(5)).ok());
  breaker.OnCall();
  breaker.OnSuccess();
  EXPECT_EQ(breaker.state(), State::kClosed);
  EXPECT_TRUE(breaker.MayCall());
}

TEST(CircuitBreakerTest, LateFailuresDoNotKeepItOpenForLonger) {
  CircuitBreaker breaker(1, absl::Seconds(5));
  breaker.OnFailure(kNow, "a");
  EXPECT_FALSE(breaker.OnFailure(kNow + absl::Seconds(4), "b"));
  EXPECT_EQ(breaker.open_until(), kNow + absl::Seconds(5));
}

TEST(CircuitBreakerTest, WithoutALimitItStaysClosed) {
  CircuitBreaker breaker(0, absl::Seconds(5));
  for (int idx = 0; idx < 100; ++idx) EXPECT_FALSE(breaker.OnFailure(kNow, "a"));
  EXPECT_TRUE(breaker.Admit(kNow).ok());
}

}  // namespace
}  // namespace maxsim::encoder
