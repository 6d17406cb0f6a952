#include "server/observability/activity.h"

#include <algorithm>
#include <utility>

namespace maxsim {
namespace {

constexpr double kMicrosecondsPerSecond = 1e6;

// Returns the increase of a counter, or 0 if it is lower than before.
uint32_t Since(uint64_t before, uint64_t now) {
  return now < before ? 0 : static_cast<uint32_t>(std::min<uint64_t>(now - before, UINT32_MAX));
}

std::vector<uint64_t> Since(const std::vector<uint64_t>& before, const std::vector<uint64_t>& now) {
  std::vector<uint64_t> counts(now.size());
  for (size_t bucket = 0; bucket < counts.size(); ++bucket) {
    counts[bucket] = Since(bucket < before.size() ? before[bucket] : 0, now[bucket]);
  }
  return counts;
}

// Returns a percentile of durations. `bounds` has the upper limits of the buckets in seconds.
std::optional<double> PercentileInMicroseconds(const std::vector<double>& bounds, const std::vector<uint64_t>& counts,
                                               double share) {
  const std::optional<double> seconds = PercentileOf(bounds, counts, share);
  if (!seconds.has_value()) return std::nullopt;
  return *seconds * kMicrosecondsPerSecond;
}

const ActivityTotals::Device* FindDevice(const ActivityTotals& totals, int number) {
  for (const ActivityTotals::Device& device : totals.devices) {
    if (device.number == number) return &device;
  }
  return nullptr;
}

double BusyShare(const ActivityTotals::Device* before, const ActivityTotals::Device& now, double seconds) {
  if (before == nullptr || seconds <= 0) return 0;
  // Lanes (scoring threads) run at the same time, so the sum of their times may exceed the elapsed time.
  return std::clamp((now.kernel_seconds - before->kernel_seconds) / seconds, 0.0, 1.0);
}

ActivitySample Between(const ActivityTotals& before, const ActivityTotals& now, double seconds) {
  const MetricsTotals& from = before.metrics;
  const MetricsTotals& to = now.metrics;
  ActivitySample sample;
  sample.seconds = seconds;
  for (size_t code = 0; code < kNumStatusCodes; ++code) {
    sample.answers[code] = Since(from.answers[code], to.answers[code]);
  }
  for (size_t reason = 0; reason < kNumRejections; ++reason) {
    sample.rejections[reason] = Since(from.rejections[reason], to.rejections[reason]);
  }
  const std::vector<uint64_t> counts = Since(from.duration_counts, to.duration_counts);
  sample.p50_us = PercentileInMicroseconds(to.duration_bounds, counts, 0.5);
  sample.p99_us = PercentileInMicroseconds(to.duration_bounds, counts, 0.99);
  if (const uint32_t batches = Since(from.batches, to.batches); batches > 0) {
    sample.mean_batch_queries = (to.batch_queries - from.batch_queries) / batches;
  }
  sample.queue_jobs = to.queue_jobs;
  sample.encoder_calls = Since(from.encoder_calls, to.encoder_calls);
  sample.encoder_cache_hits = Since(from.encoder_cache_hits, to.encoder_cache_hits);
  sample.encoder_cache_misses = Since(from.encoder_cache_misses, to.encoder_cache_misses);
  for (size_t outcome = 0; outcome < kNumWriteOutcomes; ++outcome) {
    sample.writes[outcome] = Since(from.live.writes[outcome], to.live.writes[outcome]);
  }
  const std::vector<uint64_t> visible = Since(from.live.visible_counts, to.live.visible_counts);
  sample.write_p50_us = PercentileInMicroseconds(to.live.visible_bounds, visible, 0.5);
  sample.write_p99_us = PercentileInMicroseconds(to.live.visible_bounds, visible, 0.99);
  for (const ActivityTotals::Device& device : now.devices) {
    sample.devices.push_back({device.number, device.up, BusyShare(FindDevice(before, device.number), device, seconds)});
  }
  return sample;
}

}  // namespace

std::optional<double> PercentileOf(absl::Span<const double> bounds, absl::Span<const uint64_t> counts, double share) {
  uint64_t total = 0;
  for (const uint64_t count : counts) total += count;
  if (total == 0 || bounds.empty()) return std::nullopt;
  const double rank = share * static_cast<double>(total);
  double below = 0;
  for (size_t bucket = 0; bucket < bounds.size(); ++bucket) {
    const auto count = static_cast<double>(counts[bucket]);
    if (count > 0 && below + count >= rank) {
      const double low = bucket == 0 ? 0.0 : bounds[bucket - 1];
      return low + (bounds[bucket] - low) * std::max(0.0, rank - below) / count;
    }
    below += count;
  }
  return bounds.back();
}

void Activity::Add(ActivityTotals totals, absl::Time now) {
  const MutexLock lock(&mutex_);
  if (last_.has_value()) {
    const absl::Duration length = now - last_time_;
    if (length < kInterval / 2) return;
    ActivitySample sample = Between(*last_, totals, absl::ToDoubleSeconds(length));
    if (ring_.size() < kMaxSamples) {
      ring_.push_back(std::move(sample));
    } else {
      ring_[next_] = std::move(sample);
      next_ = (next_ + 1) % kMaxSamples;
    }
  }
  last_ = std::move(totals);
  last_time_ = now;
}

Activity::History Activity::history() const {
  History history;
  const MutexLock lock(&mutex_);
  if (!last_.has_value()) return history;
  history.samples.reserve(ring_.size());
  for (size_t i = 0; i < ring_.size(); ++i) history.samples.push_back(ring_[(next_ + i) % ring_.size()]);
  history.devices = last_->devices;
  history.end = last_time_;
  return history;
}

}  // namespace maxsim
