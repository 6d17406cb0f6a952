#include "server/observability/tenant_metrics.h"

#include "prometheus/registry.h"
#include "server/observability/metric_registration.h"

namespace maxsim {

TenantMetrics::TenantMetrics(prometheus::Registry& registry)
    : requests_(AddCounter(registry, "maxsim_tenant_requests_total", "Finished calls of tenants, by tenant and code.")),
      refusals_(AddCounter(registry, "maxsim_tenant_refusals_total",
                           "Calls of tenants that a quota refused, by tenant and quota.")),
      token_pairs_(AddCounter(registry, "maxsim_tenant_token_pairs_total",
                              "Query tokens x document tokens that tenants were charged, by tenant.")) {}

TenantMetrics::Series& TenantMetrics::SeriesOf(std::string_view tenant) {
  auto found = by_tenant_.find(tenant);
  if (found != by_tenant_.end()) return found->second;
  Series& series = by_tenant_[std::string(tenant)];
  series.token_pairs = &token_pairs_.Add({{"tenant", std::string(tenant)}});
  return series;
}

void TenantMetrics::CountRequest(std::string_view tenant, absl::StatusCode code) {
  const MutexLock lock(&mutex_);
  prometheus::Counter*& counter = SeriesOf(tenant).by_code[code];
  if (counter == nullptr) {
    counter = &requests_.Add({{"tenant", std::string(tenant)}, {"code", absl::StatusCodeToString(code)}});
  }
  counter->Increment();
}

void TenantMetrics::CountRefusal(std::string_view tenant, std::string_view quota) {
  refusals_.Add({{"tenant", std::string(tenant)}, {"quota", std::string(quota)}}).Increment();
}

void TenantMetrics::AddTokenPairs(std::string_view tenant, uint64_t num_pairs) {
  const MutexLock lock(&mutex_);
  SeriesOf(tenant).token_pairs->Increment(static_cast<double>(num_pairs));
}

}  // namespace maxsim
