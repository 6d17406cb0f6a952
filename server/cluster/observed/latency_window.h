// Computes a percentile of the durations of recent calls.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace maxsim::cluster {

// Counts the durations of the current and the previous interval, in buckets from a microsecond to 19 hours, eight per
// power of two. Add is thread-safe and takes no lock; only one thread may call Turn.
class LatencyWindow {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(15);
  // The minimum number of values for a percentile.
  static constexpr uint64_t kMinValues = 20;

  void Add(absl::Duration duration);

  // Recomputes the percentile: `share` (0 to 1) of the durations are below it. If `now` is in a new interval, drops the
  // values of the interval before the previous one.
  void Turn(absl::Time now, double share);

  // Returns the last result of Turn: the upper limit of the percentile's bucket, or infinity while there are too few
  // values.
  absl::Duration percentile() const {
    const int64_t us = percentile_us_.load(std::memory_order_relaxed);
    return us < 0 ? absl::InfiniteDuration() : absl::Microseconds(us);
  }

 private:
  static constexpr int kBitsOfBucket = 3;
  static constexpr int kNumBuckets = 34 << kBitsOfBucket;
  static int BucketOf(uint64_t us);
  static uint64_t UpperLimit(int bucket);

  using Counts = std::array<std::atomic<uint32_t>, kNumBuckets>;
  std::array<Counts, 2> counts_{};
  std::atomic<int> present_{0};
  std::atomic<int64_t> percentile_us_{-1};
  absl::Time turned_ = absl::InfinitePast();  // used by Turn only
};

}  // namespace maxsim::cluster
