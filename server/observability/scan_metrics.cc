#include "server/observability/scan_metrics.h"

#include <cstddef>
#include <numeric>
#include <string>

#include "prometheus/counter.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/observability/metric_registration.h"

namespace maxsim {

ScanMetrics::ScanMetrics(prometheus::Registry& registry)
    : token_pairs_(&AddCounter(registry, "maxsim_scanned_token_pairs_total",
                               "Query tokens x document tokens whose codes were scanned.")
                        .Add({})),
      documents_(&AddCounter(registry, "maxsim_refined_documents_total",
                             "Documents that scans of codes chose and that were scored exactly.")
                      .Add({})),
      scan_duration_(&AddHistogram(registry, "maxsim_scan_duration_seconds", "Time of the scans of codes of a batch.")
                          .Add({}, DurationBuckets())),
      refine_duration_(&AddHistogram(registry, "maxsim_refine_duration_seconds",
                                     "Time of the exact scoring of a batch, after its scans of codes.")
                            .Add({}, DurationBuckets())) {
  prometheus::Family<prometheus::Counter>& scans =
      AddCounter(registry, "maxsim_scans_total", "Queries whose candidates' codes were scanned, by planes read.");
  size_t idx = 0;
  for (const char* planes : {"1", "2", "4"}) scans_[idx++] = &scans.Add({{"planes", planes}});
  prometheus::Family<prometheus::Counter>& certificates =
      AddCounter(registry, "maxsim_certificates_total", "Answers after a scan of codes, by certificate.");
  proven_ = &certificates.Add({{"certificate", "proven"}});
  not_proven_ = &certificates.Add({{"certificate", "not_proven"}});
}

void ScanMetrics::Observe(const Batch& batch) {
  for (size_t idx = 0; idx < scans_.size(); ++idx) scans_[idx]->Increment(static_cast<double>(batch.scans[idx]));
  const uint64_t answers = std::accumulate(batch.scans.begin(), batch.scans.end(), uint64_t{0});
  proven_->Increment(static_cast<double>(batch.proofs));
  not_proven_->Increment(static_cast<double>(answers - batch.proofs));
  token_pairs_->Increment(static_cast<double>(batch.token_pairs));
  documents_->Increment(static_cast<double>(batch.documents));
  scan_duration_->Observe(batch.scan_seconds);
  refine_duration_->Observe(batch.refine_seconds);
}

}  // namespace maxsim
