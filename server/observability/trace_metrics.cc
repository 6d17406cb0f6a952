#include "server/observability/trace_metrics.h"

#include <string>

#include "prometheus/counter.h"
#include "prometheus/registry.h"
#include "server/observability/metric_registration.h"

namespace maxsim {

TraceMetrics::TraceMetrics(prometheus::Registry& registry)
    : exported_(
          &AddCounter(registry, "maxsim_spans_exported_total", "Spans that the collector of traces took.").Add({})) {
  prometheus::Family<prometheus::Counter>& dropped =
      AddCounter(registry, "maxsim_spans_dropped_total", "Spans that the collector of traces did not get, by reason.");
  for (const tracing::DropReason reason : tracing::kDropReasons) {
    dropped_[static_cast<size_t>(reason)] = &dropped.Add({{"reason", std::string(Name(reason))}});
  }
}

void TraceMetrics::CountExported(uint64_t num_spans) { exported_->Increment(static_cast<double>(num_spans)); }

void TraceMetrics::CountDropped(tracing::DropReason reason, uint64_t num_spans) {
  dropped_[static_cast<size_t>(reason)]->Increment(static_cast<double>(num_spans));
}

}  // namespace maxsim
