// The metrics by tenant. They are part of Metrics (metrics.h), and documented in docs/reference/metrics.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace maxsim {

// The class is thread-safe. `tenant` must be a label that TenantRegistry (server/service/tenants/) has given, which
// bounds the number of labels. The series of a tenant exist from its first call on.
class TenantMetrics {
 public:
  // `registry` must outlive it.
  explicit TenantMetrics(prometheus::Registry& registry);

  // Counts a call by the status that the tenant got.
  void CountRequest(std::string_view tenant, absl::StatusCode code);
  // Counts a call that a quota refused. `quota` must be one of a few fixed names.
  void CountRefusal(std::string_view tenant, std::string_view quota);
  // Adds the token pairs that a call was charged.
  void AddTokenPairs(std::string_view tenant, uint64_t num_pairs);

 private:
  struct Series {
    std::map<absl::StatusCode, prometheus::Counter*> by_code;  // of the calls that there were
    prometheus::Counter* token_pairs = nullptr;
  };

  Series& SeriesOf(std::string_view tenant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Family<prometheus::Counter>& refusals_;
  prometheus::Family<prometheus::Counter>& token_pairs_;
  Mutex mutex_;
  std::map<std::string, Series, std::less<>> by_tenant_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim
