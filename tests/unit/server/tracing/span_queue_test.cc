#include "server/tracing/span_queue.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace maxsim::tracing {
namespace {

using std::chrono::seconds;

std::unique_ptr<SpanData> NumberedSpan(uint64_t number) {
  auto span = std::make_unique<SpanData>();
  span->context.span_id = number;
  return span;
}

bool PushNumber(SpanQueue& queue, uint64_t number) {
  std::unique_ptr<SpanData> span = NumberedSpan(number);
  const bool taken = queue.Push(span);
  EXPECT_EQ(span == nullptr, taken);
  return taken;
}

TEST(SpanQueueTest, TakesItsCapacityAndNoMore) {
  constexpr uint64_t kCapacity = 5;
  SpanQueue queue(kCapacity, 3);
  for (uint64_t number = 1; number <= kCapacity; ++number) EXPECT_TRUE(PushNumber(queue, number)) << number;
  EXPECT_FALSE(PushNumber(queue, kCapacity + 1));
  EXPECT_EQ(queue.Take(seconds(0)).size(), 3u);
  EXPECT_TRUE(PushNumber(queue, 7));
}

TEST(SpanQueueTest, GivesTheOldestFirstAcrossTheRingsEnd) {
  SpanQueue queue(3, 2);
  uint64_t next_in = 1;
  uint64_t next_out = 1;
  for (int round = 0; round < 10; ++round) {
    while (PushNumber(queue, next_in)) ++next_in;
    for (const std::unique_ptr<SpanData>& span : queue.Take(seconds(60))) {
      EXPECT_EQ(span->context.span_id, next_out++);
    }
  }
  EXPECT_EQ(next_out, 21u);
}

TEST(SpanQueueTest, AFullBatchNeedNotWait) {
  SpanQueue queue(8, 2);
  std::thread pusher([&] {
    PushNumber(queue, 1);
    PushNumber(queue, 2);
  });
  // If Take() waited although the batch is full, it would wait an hour, and the test would reach its time limit.
  EXPECT_EQ(queue.Take(std::chrono::hours(1)).size(), 2u);
  pusher.join();
}

TEST(SpanQueueTest, AQueueSmallerThanABatchIsSentWhenItIsFull) {
  SpanQueue queue(1, 512);
  std::thread pusher([&] { PushNumber(queue, 1); });
  EXPECT_EQ(queue.Take(std::chrono::hours(1)).size(), 1u);
  pusher.join();
}

TEST(SpanQueueTest, APartOfABatchComesWhenTheTimeIsOver) {
  SpanQueue queue(8, 4);
  PushNumber(queue, 1);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(queue.Take(std::chrono::milliseconds(20)).size(), 1u);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
  EXPECT_TRUE(queue.Take(seconds(0)).empty());
}

TEST(SpanQueueTest, ClosingEndsTheWaitAndRefusesWhatComes) {
  SpanQueue queue(8, 4);
  PushNumber(queue, 1);
  std::thread closer([&] { queue.Close(); });
  EXPECT_EQ(queue.Take(std::chrono::hours(1)).size(), 1u);
  closer.join();
  EXPECT_FALSE(PushNumber(queue, 2));
  EXPECT_TRUE(queue.Take(std::chrono::hours(1)).empty());
}

TEST(SpanQueueTest, ManyThreadsLoseNoSpan) {
  constexpr int kNumThreads = 4;
  constexpr int kNumSpans = 5000;
  SpanQueue queue(64, 16);
  std::atomic<uint64_t> num_refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kNumThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kNumSpans; ++n) {
        std::unique_ptr<SpanData> span = NumberedSpan(1);
        if (!queue.Push(span)) ++num_refused;
      }
    });
  }
  uint64_t num_taken = 0;
  std::thread taker([&] {
    while (true) {
      const std::vector<std::unique_ptr<SpanData>> batch = queue.Take(seconds(60));
      if (batch.empty()) return;
      for (const std::unique_ptr<SpanData>& span : batch) num_taken += span->context.span_id;
    }
  });
  for (std::thread& thread : threads) thread.join();
  queue.Close();
  taker.join();
  EXPECT_EQ(num_taken + num_refused, uint64_t{kNumThreads} * kNumSpans);
  EXPECT_GT(num_taken, 0u);
}

}  // namespace
}  // namespace maxsim::tracing
