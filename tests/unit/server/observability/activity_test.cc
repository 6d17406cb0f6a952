// Tests the samples of the last ten minutes of activity, which are computed from the totals of the metrics.
#include "server/observability/activity.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace maxsim {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

ActivityTotals Totals(uint64_t ok, uint64_t batches = 0, double batch_queries = 0, double kernel_seconds = 0) {
  ActivityTotals totals;
  totals.metrics.answers[0] = ok;
  totals.metrics.duration_bounds = {1e-3, 2e-3};
  totals.metrics.duration_counts = {ok, 0, 0};
  totals.metrics.batches = batches;
  totals.metrics.batch_queries = batch_queries;
  totals.devices.push_back({.number = 3, .up = true, .kernel_seconds = kernel_seconds});
  return totals;
}

TEST(PercentileOfTest, LiesEvenlyInTheBucketOfItsRank) {
  const std::vector<double> bounds = {1, 2, 4};
  EXPECT_EQ(PercentileOf(bounds, {0, 0, 0, 0}, 0.5), std::nullopt);
  EXPECT_DOUBLE_EQ(*PercentileOf(bounds, {10, 0, 0, 0}, 0.5), 0.5);
  EXPECT_DOUBLE_EQ(*PercentileOf(bounds, {0, 10, 0, 0}, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(*PercentileOf(bounds, {50, 0, 50, 0}, 0.5), 1.0);
  EXPECT_DOUBLE_EQ(*PercentileOf(bounds, {50, 0, 50, 0}, 0.99), 2 + 2 * 0.98);
  EXPECT_DOUBLE_EQ(*PercentileOf(bounds, {1, 0, 0, 9}, 0.99), 4) << "above the last limit nothing is known";
}

TEST(ActivityTest, ASampleIsWhatHappenedBetweenTwoReadings) {
  Activity activity;
  EXPECT_TRUE(activity.history().samples.empty());
  activity.Add(Totals(100, 10, 20, 7.0), At(50));
  EXPECT_TRUE(activity.history().samples.empty()) << "what came before the first reading has no known length";
  ActivityTotals next = Totals(130, 14, 32, 9.0);
  next.metrics.answers[8] = 5;
  next.metrics.rejections[static_cast<size_t>(Rejection::kQueueFull)] = 5;
  next.metrics.queue_jobs = 6;
  next.metrics.encoder_cache_hits = 2;
  activity.Add(next, At(54));
  const Activity::History history = activity.history();
  ASSERT_EQ(history.samples.size(), 1u);
  const ActivitySample& sample = history.samples[0];
  EXPECT_DOUBLE_EQ(sample.seconds, 4);
  EXPECT_EQ(sample.answers[0], 30u);
  EXPECT_EQ(sample.answers[8], 5u);
  EXPECT_EQ(sample.rejections[static_cast<size_t>(Rejection::kQueueFull)], 5u);
  EXPECT_DOUBLE_EQ(*sample.p50_us, 500);
  EXPECT_DOUBLE_EQ(*sample.p99_us, 990);
  EXPECT_DOUBLE_EQ(*sample.mean_batch_queries, 3);
  EXPECT_DOUBLE_EQ(sample.queue_jobs, 6);
  EXPECT_EQ(sample.encoder_cache_hits, 2u);
  ASSERT_EQ(sample.devices.size(), 1u);
  EXPECT_EQ(sample.devices[0].number, 3);
  EXPECT_DOUBLE_EQ(sample.devices[0].busy, 0.5);
  EXPECT_EQ(history.end, At(54));
  EXPECT_EQ(history.devices.size(), 1u);
}

TEST(ActivityTest, WhatDidNotHappenHasNoValue) {
  Activity activity;
  activity.Add(Totals(1, 1, 1), At(0));
  activity.Add(Totals(1, 1, 1), At(5));
  const ActivitySample sample = activity.history().samples.at(0);
  EXPECT_EQ(sample.answers[0], 0u);
  EXPECT_EQ(sample.p50_us, std::nullopt);
  EXPECT_EQ(sample.mean_batch_queries, std::nullopt);
}

TEST(ActivityTest, WritesAreCountedByOutcomeAndTimedUntilTheyAreVisible) {
  Activity activity;
  ActivityTotals before = Totals(0);
  before.metrics.live = {.writes = {7, 1, 0, 0}, .visible_bounds = {1e-3, 2e-3}, .visible_counts = {7, 0, 0}};
  ActivityTotals after = Totals(0);
  after.metrics.live = {.writes = {57, 1, 2, 3}, .visible_bounds = {1e-3, 2e-3}, .visible_counts = {7, 10, 0}};
  activity.Add(before, At(0));
  activity.Add(after, At(5));
  activity.Add(after, At(10));
  const std::vector<ActivitySample> samples = activity.history().samples;
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].writes, (std::array<uint32_t, kNumWriteOutcomes>{50, 0, 2, 3}));
  EXPECT_DOUBLE_EQ(*samples[0].write_p50_us, 1500);
  EXPECT_DOUBLE_EQ(*samples[0].write_p99_us, 1990);
  EXPECT_EQ(samples[1].writes, (std::array<uint32_t, kNumWriteOutcomes>{}));
  EXPECT_EQ(samples[1].write_p50_us, std::nullopt) << "nothing was written";
}

TEST(ActivityTest, LanesThatWorkSideBySideMakeADeviceBusyOnce) {
  Activity activity;
  activity.Add(Totals(0), At(0));
  activity.Add(Totals(0, 0, 0, /*kernel_seconds=*/12), At(5));
  EXPECT_DOUBLE_EQ(activity.history().samples.at(0).devices.at(0).busy, 1);
}

TEST(ActivityTest, AReadingThatComesTooSoonIsDropped) {
  Activity activity;
  activity.Add(Totals(0), At(0));
  activity.Add(Totals(7), At(1));
  EXPECT_TRUE(activity.history().samples.empty());
  activity.Add(Totals(9), At(5));
  EXPECT_EQ(activity.history().samples.at(0).answers[0], 9u) << "its calls are in the next sample";
}

TEST(ActivityTest, TheLastTenMinutesAreKeptInOrder) {
  Activity activity;
  const size_t num_readings = 2 * Activity::kMaxSamples + 8;
  uint64_t total = 0;
  for (size_t reading = 0; reading < num_readings; ++reading) {
    total += reading;
    activity.Add(Totals(total), At(5.0 * static_cast<double>(reading)));
  }
  const std::vector<ActivitySample> samples = activity.history().samples;
  ASSERT_EQ(samples.size(), Activity::kMaxSamples);
  for (size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].answers[0], num_readings - Activity::kMaxSamples + i);
  }
}

TEST(MetricsTotalsTest, AreThoseOfRerankCallsWhateverTheirPort) {
  Metrics metrics;
  metrics.CountRequest("Rerank", absl::StatusCode::kOk, absl::Microseconds(70));
  metrics.CountRequest("http", absl::StatusCode::kOk, absl::Seconds(60));
  metrics.CountRequest("RerankStream", absl::StatusCode::kNotFound, absl::Milliseconds(3));
  metrics.CountRequest("GetInfo", absl::StatusCode::kOk, absl::Milliseconds(3));
  metrics.CountRequest("explain", absl::StatusCode::kOk, absl::Milliseconds(3));
  metrics.CountRejection(Rejection::kNotFound);
  metrics.ObserveBatch(3, 10, 10, 10, 0, 0);
  metrics.ObserveBatch(5, 10, 10, 10, 0, 0);
  metrics.ObserveDevice(1, {.token_pairs = 10, .kernel_seconds = 0.25});
  metrics.SetQueue(4, 0, 0);
  metrics.CountEncoderCall("ok", 2, absl::Milliseconds(1));
  metrics.CountEncoderCacheLookup(true);
  metrics.CountEncoderCacheLookup(false);
  const MetricsTotals totals = metrics.Totals();
  EXPECT_EQ(totals.answers[static_cast<size_t>(absl::StatusCode::kOk)], 2u);
  EXPECT_EQ(totals.answers[static_cast<size_t>(absl::StatusCode::kNotFound)], 1u);
  EXPECT_EQ(totals.rejections[static_cast<size_t>(Rejection::kNotFound)], 1u);
  ASSERT_EQ(totals.duration_counts.size(), totals.duration_bounds.size() + 1);
  uint64_t calls = 0;
  for (const uint64_t count : totals.duration_counts) calls += count;
  EXPECT_EQ(calls, 3u);
  EXPECT_EQ(totals.duration_counts.back(), 1u) << "one call took a minute";
  EXPECT_EQ(totals.batches, 2u);
  EXPECT_DOUBLE_EQ(totals.batch_queries, 8);
  EXPECT_DOUBLE_EQ(totals.queue_jobs, 4);
  EXPECT_EQ(totals.encoder_calls, 1u);
  EXPECT_EQ(totals.encoder_cache_hits, 1u);
  EXPECT_EQ(totals.encoder_cache_misses, 1u);
  EXPECT_DOUBLE_EQ(metrics.KernelSeconds(1), 0.25);
  EXPECT_DOUBLE_EQ(metrics.KernelSeconds(2), 0) << "a device that is not known";
}

TEST(RejectionTest, EveryReasonHasAName) {
  for (size_t reason = 0; reason < kNumRejections; ++reason) {
    EXPECT_NE(Name(static_cast<Rejection>(reason)), "other") << reason;
  }
  EXPECT_EQ(Name(static_cast<Rejection>(kNumRejections)), "other") << "kNumRejections is too small";
}

}  // namespace
}  // namespace maxsim
