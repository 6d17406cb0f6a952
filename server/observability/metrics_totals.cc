// Reads the series of Metrics: their sums, and the text of /metrics.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "prometheus/text_serializer.h"
#include "server/observability/log_sink.h"
#include "server/observability/metrics.h"
#include "server/observability/metrics_families.h"
#include "server/observability/process_metrics.h"

namespace maxsim {
namespace {

using prometheus::Counter;
using prometheus::Histogram;

// Returns whether a method name that is passed to CountRequest is a rerank call.
bool Reranks(std::string_view method) { return method == "Rerank" || method == "RerankStream" || method == "http"; }

uint64_t CountOf(const Counter& counter) { return static_cast<uint64_t>(counter.Value()); }

// Adds a histogram's values to `counts`, per bucket. Collect returns cumulative counts.
void AddBuckets(const Histogram& histogram, std::vector<uint64_t>& counts) {
  uint64_t below = 0;
  size_t idx = 0;
  for (const prometheus::ClientMetric::Bucket& bucket : histogram.Collect().histogram.bucket) {
    if (idx < counts.size()) counts[idx++] += bucket.cumulative_count - below;
    below = bucket.cumulative_count;
  }
}

// Returns the counts of dropped log lines. The log keeps these itself, because it cannot depend on the metrics.
prometheus::MetricFamily DroppedLogLines() {
  prometheus::MetricFamily family;
  family.name = "maxsim_log_lines_dropped_total";
  family.help = "Log lines that were not written, by reason.";
  family.type = prometheus::MetricType::Counter;
  for (const auto& [reason, name] : {std::pair(log::DropReason::kReader, "reader"), {log::DropReason::kRate, "rate"}}) {
    prometheus::ClientMetric metric;
    metric.label.push_back({"reason", name});
    metric.counter.value = static_cast<double>(log::DroppedLines(reason));
    family.metric.push_back(std::move(metric));
  }
  return family;
}

}  // namespace

MetricsTotals Metrics::Totals() const {
  MetricsTotals totals;
  totals.duration_bounds = DurationBuckets();
  totals.duration_counts.assign(totals.duration_bounds.size() + 1, 0);
  {
    const MutexLock lock(&families_->mutex);
    for (const auto& [method, series] : families_->methods) {
      if (!Reranks(method)) continue;
      for (size_t code = 0; code < kNumStatusCodes; ++code) {
        if (series.by_code[code] != nullptr) totals.answers[code] += CountOf(*series.by_code[code]);
      }
      if (series.duration != nullptr) AddBuckets(*series.duration, totals.duration_counts);
    }
  }
  for (size_t reason = 0; reason < kNumRejections; ++reason) {
    totals.rejections[reason] = CountOf(*families_->by_reason[reason]);
  }
  const prometheus::ClientMetric::Histogram batches = families_->batch_queries.Collect().histogram;
  totals.batches = batches.sample_count;
  totals.batch_queries = batches.sample_sum;
  totals.queue_jobs = families_->queue_jobs.Value();
  totals.encoder_calls = families_->encoder_duration.Collect().histogram.sample_count;
  totals.encoder_cache_hits = CountOf(families_->encoder_cache_hits);
  totals.encoder_cache_misses = CountOf(families_->encoder_cache_misses);
  totals.live = live_->Totals();
  return totals;
}

double Metrics::KernelSeconds(int device) const {
  const MutexLock lock(&families_->mutex);
  const auto it = families_->devices.find(device);
  return it == families_->devices.end() || it->second.kernel == nullptr ? 0.0 : it->second.kernel->Value();
}

std::string Metrics::Expose() const {
  std::vector<prometheus::MetricFamily> all = families_->registry.Collect();
  all.push_back(DroppedLogLines());
  for (prometheus::MetricFamily& family : CollectProcessMetrics()) all.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace maxsim
