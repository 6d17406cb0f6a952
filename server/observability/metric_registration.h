// Registers families of metrics.
#pragma once

#include <functional>
#include <vector>

#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"

namespace maxsim {

// Returns the buckets for the durations of calls. A rerank takes from some hundred microseconds (a GPU, hundreds of
// candidates) to seconds (a CPU, a whole collection). The buckets cover that range in factors of about 2.
inline const prometheus::Histogram::BucketBoundaries& DurationBuckets() {
  static const auto* const buckets = new prometheus::Histogram::BucketBoundaries{
      50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
  return *buckets;
}

// Return a new family in the registry, which owns it. /metrics shows `name` and `help`.
inline prometheus::Family<prometheus::Counter>& AddCounter(prometheus::Registry& registry, const char* name,
                                                           const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}
inline prometheus::Family<prometheus::Gauge>& AddGauge(prometheus::Registry& registry, const char* name,
                                                       const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}
inline prometheus::Family<prometheus::Histogram>& AddHistogram(prometheus::Registry& registry, const char* name,
                                                               const char* help) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry);
}

// The metrics' series about one thing that comes and goes, such as a collection. The destructor removes the series from
// the registry, which must outlive this object.
class OwnedSeries {
 public:
  OwnedSeries() = default;
  OwnedSeries(OwnedSeries&&) = default;
  OwnedSeries& operator=(OwnedSeries&&) = delete;
  ~OwnedSeries() {
    for (const std::function<void()>& remove : removals_) remove();
  }

  // Adds a series to the family. For a histogram, `buckets` are its limits.
  template <typename Metric, typename... Buckets>
  Metric* Add(prometheus::Family<Metric>& family, const prometheus::Labels& labels, const Buckets&... buckets) {
    Metric* const metric = &family.Add(labels, buckets...);
    removals_.emplace_back([&family, metric] { family.Remove(metric); });
    return metric;
  }

 private:
  std::vector<std::function<void()>> removals_;
};

}  // namespace maxsim
