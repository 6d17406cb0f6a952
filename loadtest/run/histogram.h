// Latency histograms with log-linear buckets, like those of HdrHistogram. Debian 12 has no package of HdrHistogram for
// C or C++. Each value below 256 ns has its own bucket; every power of two above has 256 buckets. So up to 73 minutes,
// a percentile is at most 1/256 (0.4 %) above the recorded value that it stands for. A histogram takes 70 KiB, however
// many values it has.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace maxsim::loadtest {

inline constexpr int kSubBucketBits = 8;
inline constexpr int64_t kMaxLatencyNs = (int64_t{1} << 42) - 1;  // larger values count as this one
inline constexpr size_t kNumBuckets = size_t{42 - kSubBucketBits + 1} << kSubBucketBits;

// Returns the bucket of a value in [0, kMaxLatencyNs]; others are clamped.
size_t BucketOf(int64_t ns);
// Returns the largest value of a bucket.
int64_t HighestOf(size_t bucket);

// Counts of latencies by bucket. Not thread-safe.
class Histogram {
 public:
  Histogram() : counts_(kNumBuckets) {}

  void Record(int64_t ns);
  void Add(const Histogram& other);
  // Subtracts the counts of `earlier`, an earlier snapshot of the same recorders. The maximum becomes at most the
  // highest value of the last bucket that still has counts.
  void Subtract(const Histogram& earlier);

  int64_t count() const { return count_; }
  int64_t max_ns() const { return max_ns_; }
  double MeanNs() const { return count_ == 0 ? 0 : static_cast<double>(sum_ns_) / static_cast<double>(count_); }
  // Returns the percentile by nearest rank: the highest value of the first bucket up to which a share `quantile` of the
  // values lies, but never more than the maximum. Returns 0 if there are no values.
  int64_t PercentileNs(double quantile) const;

 private:
  friend class Recorder;
  std::vector<int64_t> counts_;
  int64_t count_ = 0;
  int64_t sum_ns_ = 0;
  int64_t max_ns_ = 0;
};

// A histogram that one thread writes, without locked instructions, and others read at any time.
class Recorder {
 public:
  void Record(int64_t ns);
  // Adds what has been recorded so far.
  void AddTo(Histogram& histogram) const;

 private:
  std::array<std::atomic<int64_t>, kNumBuckets> counts_{};
  std::atomic<int64_t> sum_ns_{0};
  std::atomic<int64_t> max_ns_{0};
};

}  // namespace maxsim::loadtest
