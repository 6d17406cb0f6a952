// Checks and narrows every call of a tenant before it reaches a service. Internal to server/service/tenant_gate.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/guard.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/observability/metrics.h"
#include "server/service/call/call.h"
#include "server/service/call/call_context.h"
#include "server/service/call/call_record.h"
#include "server/service/selection/filter_message.h"
#include "server/service/tenant_gate/error_source.h"
#include "server/service/tenants/tenant.h"

namespace maxsim::service {

// Returns INTERNAL if the port has not set the caller.
absl::Status CheckKnown(const Caller& caller);

// Returns the error for a collection that the caller may not use. It does not show whether the server has the
// collection.
absl::Status UnknownCollection(std::string_view collection);

// Whether a call scores documents, so that it needs token pairs.
enum class CallKind { kScores, kScoresNothing };

// Admits a tenant's call. Returns an error if its collection ("": none) is not the tenant's, or if a quota is used up.
// Returns a place among the tenant's requests in flight, which the call must keep until it is answered. Also sets
// context.client, so that the queue counts all calls of the tenant as those of one client.
absl::StatusOr<std::shared_ptr<const void>> Enter(CallKind kind, std::string_view collection, CallContext& context);

// Returns an error as the tenant may see it. `collection` is that of its call.
absl::Status ForTenant(const absl::Status& status, const Tenant& tenant, std::string_view collection,
                       ErrorSource source);

// Sets the request's filter `visible` to the documents that match both it and the tenant's filter. Does not compile for
// a request message that has no `visible`.
template <typename Request>
void Narrow(const Tenant& tenant, Request& request) {
  if (tenant.filter() == nullptr) return;
  v1::Filter of_tenant = FilterMessageOf(*tenant.filter());
  if (request.has_visible()) {
    v1::Filter both;
    *both.mutable_all_of()->add_filters() = std::move(of_tenant);
    *both.mutable_all_of()->add_filters() = std::move(*request.mutable_visible());
    of_tenant = std::move(both);
  }
  *request.mutable_visible() = std::move(of_tenant);
}

// Counts a tenant's call, and why a quota refused it.
void CountTenantCall(const Tenant& tenant, const absl::Status& status, Metrics& metrics);

// Answers a call that does not reach its service.
template <typename Response>
void RefuseAtGate(CallContext& context, Metrics* metrics, Done<Response>& done, const absl::Status& status) {
  if (context.caller.tenant() != nullptr) CountTenantCall(*context.caller.tenant(), status, *metrics);
  Record(context, metrics, status);
  std::exchange(done, nullptr)(status);
}

// A tenant's call that a service carries out. If it is destroyed because memory ran out, its destructor answers with an
// error.
template <typename Response>
struct TenantCall {
  ~TenantCall() {
    if (done != nullptr) done(NoMemory());
  }

  // Answers the call. If the tenant has a filter, `clean` first removes from the response what would tell of other
  // tenants.
  template <typename Clean>
  void Answer(absl::StatusOr<Response> response, Clean clean) {
    place = nullptr;  // A client that has its answer may send the next call at once.
    const Tenant& tenant = *caller.tenant();
    // This counts the service's status, even if the client cancels the call after it. The other metrics count the
    // cancellation.
    CountTenantCall(tenant, response.status(), *metrics);
    if (!response.ok())
      return Finish(Guarded([&] { return ForTenant(response.status(), tenant, collection, source); }));
    // Without a filter, all documents of the collection are the tenant's.
    if (tenant.filter() != nullptr) clean(*response);
    Finish(std::move(response));
  }

  void Finish(absl::StatusOr<Response> response) { std::exchange(done, nullptr)(std::move(response)); }

  Done<Response> done;
  Metrics* metrics = nullptr;
  Caller caller;  // a tenant
  std::string collection;
  ErrorSource source = ErrorSource::kRouter;
  std::shared_ptr<const void> place;
};

// Admits a call (Enter), and narrows its request (Narrow). Returns the tenant's call, whose `done` the caller must set,
// or null if the caller is not a tenant. `CallType` is TenantCall or derives from it. `source` says whether errors come
// from a router.
template <typename CallType, typename Request>
absl::StatusOr<std::unique_ptr<CallType>> Admit(CallKind kind, Request& request, CallContext& context, Metrics* metrics,
                                                ErrorSource source) {
  return Guarded([&]() -> absl::StatusOr<std::unique_ptr<CallType>> {
    if (absl::Status status = CheckKnown(context.caller); !status.ok()) return status;
    if (context.caller.tenant() == nullptr) return std::unique_ptr<CallType>();
    absl::StatusOr<std::shared_ptr<const void>> place = Enter(kind, request.collection(), context);
    if (!place.ok()) return place.status();
    auto call = std::make_unique<CallType>();
    call->metrics = metrics;
    call->caller = context.caller;
    call->collection = request.collection();
    call->source = source;
    call->place = *std::move(place);
    Narrow(*context.caller.tenant(), request);
    return call;
  });
}

}  // namespace maxsim::service
