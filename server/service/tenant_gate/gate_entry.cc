#include "server/service/tenant_gate/gate_entry.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/monotonic_clock.h"
#include "base/text.h"
#include "client/status.h"
#include "collection/collection_name.h"
#include "server/service/call/client_of.h"
#include "server/service/call/status.h"

namespace maxsim::service {
namespace {

// Returns whether an error's message has the collection's sequence, which counts the writes of all tenants. Looks at
// the field, too, because a refused delete has another reason: NOTHING_WRITTEN or PARTLY_DELETED.
bool SaysSequence(const absl::Status& status) {
  return client::ReasonOf(status) == client::kReasonSequenceNotReached ||
         (absl::IsUnavailable(status) && client::FieldOf(status) == "min_sequence");
}

// Returns whether a router's FAILED_PRECONDITION may name what a tenant must not know. Errors with a field, or with a
// reason other than that of a write, describe the request and may not. The others may come from a server that follows a
// wrong stream, and then name that stream and that server.
bool MayNameStream(const absl::Status& status) {
  const std::string reason = client::ReasonOf(status);
  const bool is_about_write =
      reason.empty() || reason == client::kReasonNothingWritten || reason == client::kReasonPartlyDeleted;
  return is_about_write && client::FieldOf(status).empty();
}

// Returns the message that a tenant sees in place of a router's. Returns "" if the tenant may see the router's own
// message, because it describes the request or the collection, and names no group of servers.
std::string_view MessageWithoutGroups(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
      return "";
    case absl::StatusCode::kFailedPrecondition:
      if (!MayNameStream(status)) return "";
      return "the cluster cannot carry out this call now: the collection may take no writes, or there may be no "
             "encoder for its texts";
    case absl::StatusCode::kUnavailable:
      return "some servers of the cluster cannot answer at the moment";
    case absl::StatusCode::kDeadlineExceeded:
      return "the deadline passed before all servers of the cluster had answered";
    case absl::StatusCode::kResourceExhausted:
      return "the cluster is busy";
    default:
      return "a server of the cluster failed; a write may have been carried out";
  }
}

// Replaces the message, also that of the error's field. Keeps other details.
absl::Status WithOtherMessage(const absl::Status& status, std::string_view message) {
  std::string text(message);
  if (const std::optional<uint64_t> num_deleted = client::NumDeletedOf(status); num_deleted.has_value()) {
    text += Cat("; ", *num_deleted, " documents were deleted: the call can be repeated");
  }
  const std::string field = client::FieldOf(status);
  const absl::Status changed = client::WithText(status, [&](std::string_view) { return text; });
  return field.empty() ? changed : WithMessage(changed, Cat(field, ": ", text));
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
  // A name that no collection can have is passed on, because the service's error says what is wrong with the name.
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

absl::Status ForTenant(const absl::Status& status, const Tenant& tenant, std::string_view collection,
                       ErrorSource source) {
  // The store's error lists the other collections, and a router's may name a group.
  const bool may_name_others = !tenant.collections().empty() || source == ErrorSource::kRouter;
  if (absl::IsNotFound(status) && may_name_others && client::ReasonOf(status).empty()) {
    return absl::NotFoundError(Cat("no collection ", Quote(collection), ", or no document of that id in it"));
  }
  const bool is_of_router = source == ErrorSource::kRouter;
  if (SaysSequence(status) && (tenant.filter() != nullptr || is_of_router)) {
    absl::Status cleaned =
        WithOtherMessage(status, Cat("collection ", Quote(collection), " has not reached this sequence yet"));
    if (client::ReasonOf(cleaned).empty()) client::SetReason(client::kReasonSequenceNotReached, cleaned);
    return cleaned;
  }
  if (!is_of_router || IsQuotaError(status)) return status;
  const std::string_view message = MessageWithoutGroups(status);
  return message.empty() ? status : WithOtherMessage(status, message);
}

}  // namespace maxsim::service
