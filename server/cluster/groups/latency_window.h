// Percentiles of how long calls took lately.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace maxsim::cluster {

// Counts durations in buckets that grow by an eighth, from a microsecond to an hour, of the present and the past
// interval. Add is thread-safe and takes no lock; Turn is called by one thread.
class LatencyWindow {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(15);
  // With fewer values than this there is no percentile.
  static constexpr uint64_t kMinValues = 20;

  void Add(absl::Duration duration);

  // Computes the percentile anew, and forgets the interval before the past one where `now` is in another interval.
  void Turn(absl::Time now, double share);

  // Returns what Turn computed last: the upper limit of the bucket of that percentile; infinite while there are too few
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
  absl::Time turned_ = absl::InfinitePast();  // Turn's
};

}  // namespace maxsim::cluster
