// Tests how the host detects that all results of a small call have arrived in its memory. Needs no device.
#include "kernels/cuda/call/planning/call_arrival.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

namespace maxsim::cuda {
namespace {

constexpr CallTimes kTimes{1000, 3000, 21000, 26000};
constexpr uint64_t CallTimes::*kFields[] = {&CallTimes::input_begin, &CallTimes::input_end, &CallTimes::scores_end,
                                            &CallTimes::results_end};

TEST(CallArrivalTest, IsCompleteOnlyWithEveryResultAndTime) {
  std::mt19937 random(1);
  for (const size_t count : {0, 1, 2, 100, 4096}) {
    for (int order = 0; order < 20; ++order) {
      std::vector<DeviceScored> results(count, {1.5f, 7});
      CallTimes times = kTimes;
      CallArrival arrival(absl::MakeSpan(results), &times);
      // Indices of the results and of the four times, which come after the results. They are shuffled into the order in
      // which the values are written.
      std::vector<size_t> words(count + 4);
      for (size_t i = 0; i < words.size(); ++i) words[i] = i;
      std::shuffle(words.begin(), words.end(), random);
      for (const size_t word : words) {
        EXPECT_FALSE(arrival.IsComplete());
        if (word < count) {
          results[word] = {static_cast<float>(word), static_cast<uint32_t>(word)};
        } else {
          times.*kFields[word - count] = kTimes.*kFields[word - count];
        }
      }
      EXPECT_TRUE(arrival.IsComplete());
      EXPECT_TRUE(arrival.IsComplete());
      EXPECT_EQ(arrival.DeviceTime(), std::chrono::microseconds(25));
    }
  }
}

// Position 0xffffffff marks a result that has not arrived. All other results must be recognised as arrived.
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
