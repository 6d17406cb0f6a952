// How the host sees a small call's results come in, without a device.
#include "kernels/cuda/call/call_arrival.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

namespace maxsim::cuda {
namespace {

constexpr CallTimes kTimes{1000, 3000, 21000, 26000};
constexpr uint64_t CallTimes::*kPlaces[] = {&CallTimes::input_begin, &CallTimes::input_end, &CallTimes::scores_end,
                                            &CallTimes::results_end};

TEST(CallArrivalTest, IsCompleteOnlyWithEveryResultAndTime) {
  std::mt19937 random(1);
  for (const size_t count : {0, 1, 2, 100, 4096}) {
    for (int order = 0; order < 20; ++order) {
      std::vector<DeviceScored> results(count, {1.5f, 7});
      CallTimes times = kTimes;
      CallArrival arrival(absl::MakeSpan(results), &times);
      // Places in the order in which they are filled; the last four are the times.
      std::vector<size_t> places(count + 4);
      for (size_t i = 0; i < places.size(); ++i) places[i] = i;
      std::shuffle(places.begin(), places.end(), random);
      for (const size_t place : places) {
        EXPECT_FALSE(arrival.IsComplete());
        if (place < count) {
          results[place] = {static_cast<float>(place), static_cast<uint32_t>(place)};
        } else {
          times.*kPlaces[place - count] = kTimes.*kPlaces[place - count];
        }
      }
      EXPECT_TRUE(arrival.IsComplete());
      EXPECT_TRUE(arrival.IsComplete());
      EXPECT_EQ(arrival.DeviceTime(), std::chrono::microseconds(25));
    }
  }
}

// Scores and positions of any bits but one position, which is none.
TEST(CallArrivalTest, TakesEveryResult) {
  for (const DeviceScored result : {DeviceScored{0.0f, 0}, {-0.0f, 0xfffffffe}, {-1e30f, 0x7fffffff}}) {
    std::vector<DeviceScored> results(1);
    CallTimes times{};
    CallArrival arrival(absl::MakeSpan(results), &times);
    times = kTimes;
    EXPECT_FALSE(arrival.IsComplete());
    results[0] = result;
    EXPECT_TRUE(arrival.IsComplete());
  }
}

TEST(CallArrivalTest, AClockThatStepsBackIsNoTime) {
  std::vector<DeviceScored> results;
  CallTimes times{};
  CallArrival arrival(absl::MakeSpan(results), &times);
  times = {5000, 5000, 5000, 4000};
  EXPECT_TRUE(arrival.IsComplete());
  EXPECT_EQ(arrival.DeviceTime(), std::chrono::nanoseconds(0));
}

}  // namespace
}  // namespace maxsim::cuda
