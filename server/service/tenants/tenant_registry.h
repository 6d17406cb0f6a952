// Keeps the usage of each tenant by its name, so that all tokens of a tenant share it and a reload of the token files
// keeps it.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "server/service/tenants/tenant_usage.h"

namespace maxsim::service {

// Bounds the series of metrics by tenant.
inline constexpr size_t kMaxTenantLabels = 256;
// The label of all further tenants. No name can begin with "_".
inline constexpr char kOtherTenants[] = "_other";

// Thread-safe.
class TenantRegistry {
 public:
  // Returns a tenant's usage. The first kMaxTenantLabels names get own labels.
  std::shared_ptr<TenantUsage> UsageOf(const std::string& name) {
    MutexLock lock(&mutex_);
    std::shared_ptr<TenantUsage>& usage = by_name_[name];
    if (usage == nullptr) {
      usage = std::make_shared<TenantUsage>(by_name_.size() <= kMaxTenantLabels ? name : kOtherTenants);
    }
    return usage;
  }

 private:
  Mutex mutex_;
  // A tenant that is removed from the files keeps its entry. Otherwise removing it and adding it again would refill its
  // bucket of token pairs.
  std::map<std::string, std::shared_ptr<TenantUsage>> by_name_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::service
