#include "server/service/call/call_tracker.h"

#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace maxsim::service {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

milliseconds Since(Clock::time_point begin) { return std::chrono::duration_cast<milliseconds>(Clock::now() - begin); }

TEST(CallTrackerTest, WithoutCallsNothingIsWaitedFor) {
  CallTracker tracker;
  tracker.BeginDrain();
  EXPECT_EQ(tracker.WaitForEarlierCalls(absl::Hours(1)), 0);
  EXPECT_TRUE(tracker.WaitForQuiet(absl::Milliseconds(250), absl::Hours(1)));
}

TEST(CallTrackerTest, AnEarlierCallIsWaitedForALaterOneIsNot) {
  CallTracker tracker;
  std::optional<CallTracker::Call> earlier(&tracker);
  tracker.BeginDrain();
  std::optional<CallTracker::Call> later(&tracker);
  EXPECT_EQ(tracker.WaitForEarlierCalls(absl::Milliseconds(20)), 1);
  EXPECT_EQ(tracker.WaitForEarlierCalls(-absl::InfiniteDuration()), 1);
  std::thread ends([&] {
    std::this_thread::sleep_for(milliseconds(30));
    earlier.reset();
  });
  EXPECT_EQ(tracker.WaitForEarlierCalls(absl::InfiniteDuration()), 0);
  ends.join();
  EXPECT_FALSE(tracker.WaitForQuiet(absl::ZeroDuration(), absl::Milliseconds(20))) << "the later one is in progress";
  later.reset();
  EXPECT_TRUE(tracker.WaitForQuiet(absl::ZeroDuration(), absl::Hours(1)));
}

TEST(CallTrackerTest, QuietBeginsWithTheLastCallsEnd) {
  CallTracker tracker;
  tracker.BeginDrain();
  std::optional<CallTracker::Call> call(&tracker);
  const Clock::time_point begin = Clock::now();
  call.reset();
  EXPECT_TRUE(tracker.WaitForQuiet(absl::Milliseconds(100), absl::Hours(1)));
  EXPECT_GE(Since(begin), milliseconds(100)) << "from the last call's end";
}

TEST(CallTrackerTest, ClientsThatNeverRestMeetTheLimit) {
  CallTracker tracker;
  tracker.BeginDrain();
  CallTracker::Call call(&tracker);
  const Clock::time_point begin = Clock::now();
  EXPECT_FALSE(tracker.WaitForQuiet(absl::ZeroDuration(), absl::Milliseconds(50)));
  EXPECT_GE(Since(begin), milliseconds(50));
}

TEST(CallTrackerTest, ACallEndsOnce) {
  CallTracker tracker;
  {
    CallTracker::Call call(&tracker);
    tracker.BeginDrain();
    call.End();
    call.End();
    EXPECT_EQ(tracker.WaitForEarlierCalls(absl::ZeroDuration()), 0);
  }
  EXPECT_EQ(tracker.WaitForEarlierCalls(absl::ZeroDuration()), 0);
}

TEST(CallTrackerTest, ManyThreadsMayBeginAndEndCallsWhileOneWaits) {
  CallTracker tracker;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) CallTracker::Call call(&tracker);
    });
  }
  tracker.BeginDrain();
  EXPECT_EQ(tracker.WaitForEarlierCalls(absl::Hours(1)), 0);
  EXPECT_TRUE(tracker.WaitForQuiet(absl::Milliseconds(1), absl::Hours(1)));
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(tracker.WaitForQuiet(absl::ZeroDuration(), absl::ZeroDuration()));
}

}  // namespace
}  // namespace maxsim::service
