#include "server/service/tenant_gate/gate_entry.h"

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "client/status.h"
#include "collection/collection_name.h"
#include "server/service/call/client_of.h"
#include "server/service/call/status.h"

namespace maxsim::service {
namespace {

// Returns whether an error says to which sequence the writes of all tenants have come. The reason is not enough: a
// delete that was refused has the reason NOTHING_WRITTEN, or PARTLY_DELETED.
bool SaysSequence(const absl::Status& status) {
  return client::ReasonOf(status) == client::kReasonSequenceNotReached ||
         (absl::IsUnavailable(status) && client::FieldOf(status) == "min_sequence");
}

}  // namespace

absl::Status CheckKnown(const Caller& caller) {
  if (caller.is_known()) return absl::OkStatus();
  return absl::InternalError("the port does not say who makes this call");
}

absl::Status UnknownCollection(std::string_view collection) {
  return absl::NotFoundError(Cat("no collection ", Quote(collection), " for the tenant of this token"));
}

absl::StatusOr<std::shared_ptr<const void>> Enter(CallKind kind, std::string_view collection, CallContext& context) {
  const Tenant& tenant = *context.caller.tenant();
  context.client = ClientOf(Cat("tenant ", tenant.name()), "");
  context.span.SetAttribute("maxsim.tenant", tenant.name());
  // Names that no collection can have get the error of the service, which says what is wrong with them.
  if (!tenant.MayUse(collection) && collection::IsCollectionName(collection)) return UnknownCollection(collection);
  if (kind == CallKind::kScores) {
    absl::Status status = tenant.usage().CheckTokenPairs(tenant.quotas(), MonotonicNow());
    if (!status.ok()) return status;
  }
  return tenant.usage().TakeRequest(tenant.quotas());
}

void CountTenantCall(const Tenant& tenant, const absl::Status& status, Metrics& metrics) {
  Guarded([&] {
    metrics.tenants().CountRequest(tenant.usage().label(), status.code());
    if (const std::optional<TenantQuota> quota = QuotaOf(status); quota.has_value()) {
      metrics.tenants().CountRefusal(tenant.usage().label(), Name(*quota));
    }
    return absl::OkStatus();
  }).IgnoreError();
}

absl::Status ForTenant(const absl::Status& status, const Tenant& tenant, std::string_view collection) {
  // The error of the store lists the other collections.
  if (absl::IsNotFound(status) && !tenant.collections().empty() && client::ReasonOf(status).empty()) {
    return absl::NotFoundError(Cat("no collection ", Quote(collection), ", or no document of that id in it"));
  }
  if (tenant.filter() == nullptr || !SaysSequence(status)) return status;
  const std::optional<uint64_t> num_deleted = client::NumDeletedOf(status);
  absl::Status cleaned = FieldError(
      status.code(), client::kReasonSequenceNotReached, client::FieldOf(status),
      Cat("collection ", Quote(collection), " has not reached this sequence yet",
          num_deleted.has_value() ? Cat("; ", *num_deleted, " documents were deleted: the call can be repeated") : ""));
  if (const auto info = status.GetPayload(client::kErrorInfoTypeUrl); info.has_value()) {
    cleaned.SetPayload(client::kErrorInfoTypeUrl, *info);
  }
  if (const auto delay = client::RetryAfter(status); delay.has_value()) client::SetRetryAfter(*delay, cleaned);
  return cleaned;
}

}  // namespace maxsim::service
