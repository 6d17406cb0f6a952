#include "loadtest/run/histogram.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "loadtest/random/random.h"

namespace maxsim::loadtest {
namespace {

TEST(HistogramTest, BucketsJoinWithoutGapsAndGrowWithTheirValues) {
  for (size_t bucket = 0; bucket + 1 < kNumBuckets; ++bucket) {
    const int64_t highest = HighestOf(bucket);
    ASSERT_EQ(BucketOf(highest), bucket) << highest;
    ASSERT_EQ(BucketOf(highest + 1), bucket + 1) << highest + 1;
  }
  EXPECT_EQ(HighestOf(kNumBuckets - 1), kMaxLatencyNs);
  EXPECT_EQ(BucketOf(kMaxLatencyNs), kNumBuckets - 1);
  EXPECT_EQ(BucketOf(kMaxLatencyNs + 1), kNumBuckets - 1);
  EXPECT_EQ(BucketOf(INT64_MAX), kNumBuckets - 1);
  EXPECT_EQ(BucketOf(-5), 0u);
}

TEST(HistogramTest, APercentileIsAtMost1Of256AboveTheExactOneAndNeverBelow) {
  Random random(7);
  Histogram histogram;
  std::vector<int64_t> values;
  for (int i = 0; i < 20'001; ++i) {
    values.push_back(static_cast<int64_t>(std::exp(25 * random.Uniform())));  // 1 ns to 72 s
    histogram.Record(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double quantile : {0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
    const auto rank = static_cast<size_t>(std::ceil(quantile * static_cast<double>(values.size())));
    const int64_t exact = values[rank - 1];
    EXPECT_GE(histogram.PercentileNs(quantile), exact) << quantile;
    EXPECT_LE(histogram.PercentileNs(quantile) - exact, exact / 256) << quantile;
  }
  EXPECT_EQ(histogram.max_ns(), values.back());
}

TEST(HistogramTest, SmallCountsTakeTheNearestRank) {
  Histogram histogram;
  EXPECT_EQ(histogram.PercentileNs(0.5), 0);
  EXPECT_EQ(histogram.MeanNs(), 0);
  histogram.Record(100);
  for (const double quantile : {0.0, 0.5, 1.0}) EXPECT_EQ(histogram.PercentileNs(quantile), 100);
  histogram.Record(200);
  EXPECT_EQ(histogram.PercentileNs(0.5), 100);
  EXPECT_EQ(histogram.PercentileNs(0.51), 200);
  EXPECT_EQ(histogram.MeanNs(), 150);
}

TEST(HistogramTest, MergedHistogramsAreTheHistogramOfAllValues) {
  Random random(3);
  Histogram whole, merged;
  std::vector<Histogram> parts(3);
  for (size_t i = 0; i < 3000; ++i) {
    const auto value = static_cast<int64_t>(random.Below(10'000'000));
    whole.Record(value);
    parts[i % 3].Record(value);
  }
  for (const Histogram& part : parts) merged.Add(part);
  EXPECT_EQ(merged.count(), whole.count());
  EXPECT_EQ(merged.max_ns(), whole.max_ns());
  EXPECT_EQ(merged.MeanNs(), whole.MeanNs());
  for (int i = 0; i <= 100; ++i) {
    const double quantile = 0.01 * i;
    EXPECT_EQ(merged.PercentileNs(quantile), whole.PercentileNs(quantile)) << quantile;
  }
}

TEST(HistogramTest, SubtractingASnapshotLeavesWhatCameAfterIt) {
  Histogram histogram;
  for (int i = 0; i < 100; ++i) histogram.Record(1'000'000'000);
  const Histogram before = histogram;
  for (int i = 0; i < 10; ++i) histogram.Record(1000);
  histogram.Subtract(before);
  EXPECT_EQ(histogram.count(), 10);
  EXPECT_EQ(histogram.MeanNs(), 1000);
  EXPECT_LE(histogram.max_ns(), 1000 + 1000 / 256);
  EXPECT_LE(histogram.PercentileNs(1), 1000 + 1000 / 256);
}

TEST(RecorderTest, IsReadWhileAnotherThreadWrites) {
  const auto recorder = std::make_unique<Recorder>();
  constexpr int64_t kValues = 200'000;
  std::thread writer([&recorder] {
    for (int64_t i = 1; i <= kValues; ++i) recorder->Record(i);
  });
  int64_t seen = 0;
  while (seen < kValues) {
    Histogram snapshot;
    recorder->AddTo(snapshot);
    ASSERT_GE(snapshot.count(), seen) << "a count went back";
    seen = snapshot.count();
  }
  writer.join();
  Histogram all;
  recorder->AddTo(all);
  EXPECT_EQ(all.count(), kValues);
  EXPECT_EQ(all.max_ns(), kValues);
  EXPECT_EQ(all.MeanNs(), (kValues + 1) / 2.0);
}

}  // namespace
}  // namespace maxsim::loadtest
