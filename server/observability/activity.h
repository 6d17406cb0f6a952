// Records the server's activity of the last ten minutes as samples of a few seconds each, so that a person can see what
// happened recently. Requests are not slowed down: a background thread, the server's monitor, computes the samples from
// the metrics.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "server/observability/metrics.h"

namespace maxsim {

// One reading of the metrics. A sample is the difference of two readings. Counts are since the server started.
struct ActivityTotals {
  struct Device {
    int number = 0;
    bool up = false;
    double kernel_seconds = 0;                // summed over lanes
    uint64_t memory_bytes = 0;                // memory of the device; for the CPU, of the host
    std::optional<uint64_t> free_bytes = {};  // the part of it that is free
    uint64_t collection_bytes = 0;            // the part of it that collections take
    uint64_t budget_bytes = 0;                // memory.budget; 0: none
    std::string backend = {};                 // "cpu" or "cuda"
    std::string name = {};                    // the maker's name for the device
  };

  MetricsTotals metrics;
  std::vector<Device> devices = {};
};

// The activity between two readings.
struct ActivitySample {
  struct Device {
    int number = 0;
    bool up = false;
    double busy = 0;  // share of the time that its kernels ran, summed over lanes, at most 1
  };

  double seconds = 0;                                 // its length
  std::array<uint32_t, kNumStatusCodes> answers{};    // rerank calls by status code
  std::array<uint32_t, kNumRejections> rejections{};  // by Rejection
  std::optional<double> p50_us = {}, p99_us = {};     // duration of rerank calls; nullopt if there was no call
  std::optional<double> mean_batch_queries = {};      // nullopt if there was no batch
  double queue_jobs = 0;                              // at the end
  uint32_t encoder_calls = 0;
  uint32_t encoder_cache_hits = 0;
  uint32_t encoder_cache_misses = 0;
  std::array<uint32_t, kNumWriteOutcomes> writes{};            // to live collections, by WriteOutcome
  std::optional<double> write_p50_us = {}, write_p99_us = {};  // time until searches see a request's writes
  std::vector<Device> devices = {};
};

// Estimates a percentile of values that fell into buckets between two readings. `bounds` are the buckets' upper limits,
// ascending; `counts` has one more bucket, above the last limit. Values are assumed to be spread evenly over a bucket,
// so that the estimate is off by less than its width; values above the last limit are assumed to be equal to it.
// `share` is 0.99 for the 99th percentile. Returns nullopt if there is no value.
std::optional<double> PercentileOf(absl::Span<const double> bounds, absl::Span<const uint64_t> counts, double share);

// Keeps the samples. The class is thread-safe.
class Activity {
 public:
  // The number of samples that are kept, and their length: ten minutes in all.
  static constexpr size_t kMaxSamples = 120;
  static constexpr absl::Duration kInterval = absl::Seconds(5);

  struct History {
    std::vector<ActivitySample> samples = {};          // oldest first, each beginning where the one before ended
    std::vector<ActivityTotals::Device> devices = {};  // as of the last reading
    absl::Time end = absl::InfinitePast();             // time of the last reading (MonotonicNow)
  };

  // Adds a reading taken at `now`, a time of MonotonicNow(). The first reading only begins the first sample. Ignores a
  // reading less than half an interval after the previous one.
  void Add(ActivityTotals totals, absl::Time now);

  History history() const;

 private:
  mutable Mutex mutex_;
  std::optional<ActivityTotals> last_ ABSL_GUARDED_BY(mutex_);
  absl::Time last_time_ ABSL_GUARDED_BY(mutex_);
  std::vector<ActivitySample> ring_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // where the next sample goes, once the ring is full
};

}  // namespace maxsim
