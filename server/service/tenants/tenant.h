// Tenants: clients whose tokens may use only some collections, or only some of their documents
// (docs/internals/tenants.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/filters/filter.h"
#include "server/service/tenants/tenant_usage.h"

namespace maxsim::service {

// Limits on one tenant's settings. A server may have 10,000 tenants, and each request copies its tenant's filter.
inline constexpr size_t kMaxTenantNameBytes = 64;
inline constexpr size_t kMaxTenantCollections = 1'000;
inline constexpr size_t kMaxTenantFilterBytes = 4'096;

// The settings of one token in a token file.
struct TenantSettings {
  std::string name;
  std::vector<std::string> collections = {};      // sorted; empty: every collection
  std::optional<collection::Filter> filter = {};  // if unset, every document
  TenantQuotas quotas = {};
};

// Parses the JSON object after a token in a token file (docs/internals/tenants.md lists its members). Returns
// INVALID_ARGUMENT naming the member, the value and the limit.
absl::StatusOr<TenantSettings> ParseTenant(std::string_view json);

// The permissions and quotas of a tenant's token. Immutable and thread-safe.
class Tenant {
 public:
  // All tokens of one tenant share its `usage`, which must not be null.
  Tenant(TenantSettings settings, std::shared_ptr<TenantUsage> usage)
      : settings_(std::move(settings)), usage_(std::move(usage)) {}

  const std::string& name() const { return settings_.name; }
  // Returns the collections that the token may use, sorted. Empty means all.
  const std::vector<std::string>& collections() const { return settings_.collections; }
  bool MayUse(std::string_view collection) const;
  // Returns the filter for what the tenant sees, or null if it sees everything.
  const collection::Filter* filter() const { return settings_.filter.has_value() ? &*settings_.filter : nullptr; }
  const TenantQuotas& quotas() const { return settings_.quotas; }
  TenantUsage& usage() const { return *usage_; }

 private:
  const TenantSettings settings_;
  const std::shared_ptr<TenantUsage> usage_;
};

}  // namespace maxsim::service
