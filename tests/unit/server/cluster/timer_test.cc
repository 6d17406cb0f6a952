#include "server/cluster/timer.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/monotonic_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::cluster {
namespace {

using testing::ElementsAre;

TEST(TimerTest, FunctionsRunInTheOrderOfTheirTimes) {
  Timer timer;
  std::vector<int> order;
  absl::Notification done;
  const absl::Time now = MonotonicNow();
  timer.At(now + absl::Milliseconds(60), [&] {
    order.push_back(3);
    done.Notify();
  });
  timer.At(now + absl::Milliseconds(20), [&] { order.push_back(1); });
  timer.At(now + absl::Milliseconds(20), [&] { order.push_back(2); });
  done.WaitForNotification();
  EXPECT_GE(MonotonicNow(), now + absl::Milliseconds(60));
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(TimerTest, AnEarlierFunctionIsNotHeldUpByOneThatWaits) {
  Timer timer;
  timer.At(MonotonicNow() + absl::Hours(1), [] {});
  absl::Notification done;
  timer.At(MonotonicNow() + absl::Milliseconds(1), [&] { done.Notify(); });
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(10)));
}

TEST(TimerTest, WhatHasNotRunWhenItEndsNeverDoes) {
  std::atomic<bool> ran{false};
  {
    Timer timer;
    timer.At(MonotonicNow() + absl::Hours(1), [&] { ran = true; });
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
          timer.At(MonotonicNow() + absl::Microseconds(i % 7), [&] { ++count; });
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const absl::Time end = MonotonicNow() + absl::Seconds(20);
    while (count < 2000 && MonotonicNow() < end) std::this_thread::yield();
  }
  EXPECT_EQ(count, 2000);
}

}  // namespace
}  // namespace maxsim::cluster
