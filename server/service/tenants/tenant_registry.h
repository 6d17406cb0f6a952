// Remembers the usage of each tenant by name, so that all its tokens share it and a reload keeps it.
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
// The label of all tenants beyond these. It begins with a character that a name cannot begin with.
inline constexpr char kOtherTenants[] = "_other";

// Thread-safe.
class TenantRegistry {
 public:
  // Returns the usage of a tenant. The first kMaxTenantLabels names that this was called for have their own labels.
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
  // A tenant that is removed from the files and added again later finds its usage, as otherwise a reload could fill its
  // bucket.
  std::map<std::string, std::shared_ptr<TenantUsage>> by_name_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::service
