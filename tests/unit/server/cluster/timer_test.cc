#include "server/cluster/calls/timer.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/monotonic_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/values/eventually.h"

namespace maxsim::cluster {
namespace {

using testing::ElementsAre;

TEST(TimerTest, FunctionsRunInTheOrderOfTheirTimes) {
  Timer timer;
  std::vector<int> order;
  absl::Notification done;
  const absl::Time now = MonotonicNow() + absl::Seconds(1);  // late enough for all three functions to be added first
  timer.At(now + absl::Milliseconds(60), absl::ZeroDuration(), [&] {
    order.push_back(3);
    done.Notify();
  });
  timer.At(now + absl::Milliseconds(20), absl::ZeroDuration(), [&] { order.push_back(1); });
  timer.At(now + absl::Milliseconds(20), absl::ZeroDuration(), [&] { order.push_back(2); });
  done.WaitForNotification();
  EXPECT_GE(MonotonicNow(), now + absl::Milliseconds(60));
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(TimerTest, AnEarlierFunctionIsNotHeldUpByOneThatWaits) {
  Timer timer;
  timer.At(MonotonicNow() + absl::Hours(1), absl::ZeroDuration(), [] {});
  absl::Notification done;
  timer.At(MonotonicNow() + absl::Milliseconds(1), absl::ZeroDuration(), [&] { done.Notify(); });
  done.WaitForNotification();
}

TEST(TimerTest, FunctionsWhoseSlackAllowsItRunTogether) {
  Timer timer;
  constexpr absl::Duration kSlack = absl::Milliseconds(50);
  // This time is late enough for both functions to be added before it, even on a busy machine.
  const absl::Time begin =
      absl::UnixEpoch() + absl::Ceil(MonotonicNow() + absl::Seconds(1) - absl::UnixEpoch(), kSlack);
  std::vector<int> order;
  absl::Notification done;
  timer.At(begin + absl::Milliseconds(49), kSlack, [&] { order.push_back(1); });
  timer.At(begin + absl::Milliseconds(1), kSlack, [&] {
    order.push_back(2);
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_GE(MonotonicNow(), begin + kSlack);
  // The slack lets the timer run both functions at the same time. They run in the order in which they were added.
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST(TimerTest, WhatHasNotRunWhenItEndsNeverDoes) {
  std::atomic<bool> ran{false};
  {
    Timer timer;
    timer.At(MonotonicNow() + absl::Hours(1), absl::ZeroDuration(), [&] { ran = true; });
  }
  EXPECT_FALSE(ran);
}

TEST(TimerTest, ManyThreadsMayUseIt) {
  std::atomic<int> count{0};
  {
    Timer timer;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          timer.At(MonotonicNow() + absl::Microseconds(i % 7), absl::ZeroDuration(), [&] { ++count; });
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    test::Eventually([&] { return count >= 2000; });
  }
  EXPECT_EQ(count, 2000);
}

}  // namespace
}  // namespace maxsim::cluster
