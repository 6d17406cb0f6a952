#include "loadtest/run/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace maxsim::loadtest {
namespace {

constexpr int64_t kSubBuckets = int64_t{1} << kSubBucketBits;

// Adds to a value that only the calling thread writes, so that a load and a store are enough.
void AddRelaxed(std::atomic<int64_t>& value, int64_t more) {
  value.store(value.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

}  // namespace

size_t BucketOf(int64_t ns) {
  const int64_t value = std::clamp<int64_t>(ns, 0, kMaxLatencyNs);
  if (value < kSubBuckets) return static_cast<size_t>(value);
  const int shift = std::bit_width(static_cast<uint64_t>(value)) - kSubBucketBits - 1;
  return static_cast<size_t>((shift + 1) * kSubBuckets + (value >> shift) - kSubBuckets);
}

int64_t HighestOf(size_t bucket) {
  const auto index = static_cast<int64_t>(bucket);
  if (index < kSubBuckets) return index;
  const int64_t shift = index / kSubBuckets - 1;
  return ((index % kSubBuckets + kSubBuckets + 1) << shift) - 1;
}

void Histogram::Record(int64_t ns) {
  const int64_t value = std::clamp<int64_t>(ns, 0, kMaxLatencyNs);
  ++counts_[BucketOf(value)];
  ++count_;
  sum_ns_ += value;
  max_ns_ = std::max(max_ns_, value);
}

void Histogram::Add(const Histogram& other) {
  for (size_t i = 0; i < kNumBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ns_ += other.sum_ns_;
  max_ns_ = std::max(max_ns_, other.max_ns_);
}

void Histogram::Subtract(const Histogram& earlier) {
  count_ = 0;
  size_t highest = 0;
  for (size_t i = 0; i < kNumBuckets; ++i) {
    counts_[i] -= earlier.counts_[i];
    count_ += counts_[i];
    if (counts_[i] > 0) highest = i;
  }
  sum_ns_ -= earlier.sum_ns_;
  max_ns_ = count_ == 0 ? 0 : std::min(max_ns_, HighestOf(highest));
}

int64_t Histogram::PercentileNs(double quantile) const {
  const auto rank = std::clamp(static_cast<int64_t>(std::ceil(quantile * static_cast<double>(count_))), int64_t{1},
                               std::max(count_, int64_t{1}));
  int64_t seen = 0;
  for (size_t i = 0; i < kNumBuckets; ++i) {
    seen += counts_[i];
    if (seen >= rank) return std::min(HighestOf(i), max_ns_);
  }
  return 0;
}

void Recorder::Record(int64_t ns) {
  const int64_t value = std::clamp<int64_t>(ns, 0, kMaxLatencyNs);
  AddRelaxed(counts_[BucketOf(value)], 1);
  AddRelaxed(sum_ns_, value);
  if (value > max_ns_.load(std::memory_order_relaxed)) max_ns_.store(value, std::memory_order_relaxed);
}

void Recorder::AddTo(Histogram& histogram) const {
  for (size_t i = 0; i < kNumBuckets; ++i) {
    const int64_t count = counts_[i].load(std::memory_order_relaxed);
    histogram.counts_[i] += count;
    histogram.count_ += count;
  }
  histogram.sum_ns_ += sum_ns_.load(std::memory_order_relaxed);
  histogram.max_ns_ = std::max(histogram.max_ns_, max_ns_.load(std::memory_order_relaxed));
}

}  // namespace maxsim::loadtest
