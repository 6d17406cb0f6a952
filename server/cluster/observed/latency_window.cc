#include "server/cluster/observed/latency_window.h"

#include <algorithm>
#include <bit>

namespace maxsim::cluster {

int LatencyWindow::BucketOf(uint64_t us) {
  constexpr uint64_t kFirst = uint64_t{1} << kBitsOfBucket;
  if (us < kFirst) return static_cast<int>(us);
  const int exponent = std::bit_width(us) - 1 - kBitsOfBucket;
  const auto mantissa = static_cast<int>((us >> exponent) & (kFirst - 1));
  return std::min(((exponent + 1) << kBitsOfBucket) + mantissa, kNumBuckets - 1);
}

uint64_t LatencyWindow::UpperLimit(int bucket) {
  constexpr int kFirst = 1 << kBitsOfBucket;
  if (bucket < kFirst) return static_cast<uint64_t>(bucket) + 1;
  const int exponent = (bucket >> kBitsOfBucket) - 1;
  const auto mantissa = static_cast<uint64_t>(bucket & (kFirst - 1));
  return (kFirst + mantissa + 1) << exponent;
}

void LatencyWindow::Add(absl::Duration duration) {
  const auto us = static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Microseconds(duration)));
  Counts& counts = counts_[static_cast<size_t>(present_.load(std::memory_order_relaxed))];
  counts[static_cast<size_t>(BucketOf(us))].fetch_add(1, std::memory_order_relaxed);
}

void LatencyWindow::Turn(absl::Time now, double share) {
  uint64_t total = 0;
  std::array<uint64_t, kNumBuckets> sums{};
  for (const Counts& counts : counts_) {
    for (int i = 0; i < kNumBuckets; ++i) {
      const uint64_t count = counts[static_cast<size_t>(i)].load(std::memory_order_relaxed);
      sums[static_cast<size_t>(i)] += count;
      total += count;
    }
  }
  int64_t percentile_us = -1;
  if (total >= kMinValues) {
    const auto wanted = static_cast<uint64_t>(share * static_cast<double>(total));
    uint64_t seen = 0;
    int bucket = 0;
    while (bucket < kNumBuckets - 1 && (seen += sums[static_cast<size_t>(bucket)]) <= wanted) ++bucket;
    percentile_us = static_cast<int64_t>(UpperLimit(bucket));
  }
  percentile_us_.store(percentile_us, std::memory_order_relaxed);
  if (turned_ == absl::InfinitePast()) turned_ = now;
  if (now - turned_ < kInterval) return;
  turned_ = now;
  const int next = 1 - present_.load(std::memory_order_relaxed);
  for (std::atomic<uint32_t>& count : counts_[static_cast<size_t>(next)]) count.store(0, std::memory_order_relaxed);
  present_.store(next, std::memory_order_relaxed);
}

}  // namespace maxsim::cluster
