#include "server/service/tenant_gate/tenant_documents.h"

#include <memory>
#include <utility>

#include "server/service/tenant_gate/gate_entry.h"

namespace maxsim::service {
namespace {

// Sequences count the writes of all tenants. Answers to writes keep them, because clients wait for their own writes by
// them (min_sequence).
template <typename Response>
void CleanCounts(Response& response) {
  response.set_sequence(0);
}

template <typename Response>
void CleanDocuments(Response& response) {
  response.set_sequence(0);
  for (v1::StoredDocument& document : *response.mutable_documents()) document.set_sequence(0);
}

template <typename Response>
void KeepAll(Response&) {}

}  // namespace

template <typename Request, typename Response, typename Clean>
void TenantDocuments::PassOn(const Request& request, CallContext context, Done<Response> done,
                             Method<Request, Response> method, Clean clean) {
  using OfTenant = TenantCall<Response>;
  if (context.caller.is_known() && context.caller.tenant() == nullptr) {
    return (documents_->*method)(request, std::move(context), std::move(done));
  }
  Request narrowed;
  absl::StatusOr<std::unique_ptr<OfTenant>> call = Guarded([&] {
    narrowed = request;
    return Admit<OfTenant>(CallKind::kScoresNothing, narrowed, context, metrics_);
  });
  if (!call.ok()) return RefuseAtGate(context, metrics_, done, call.status());
  (*call)->done = std::move(done);
  // The callback is small, so that no memory is allocated for it.
  (documents_->*method)(narrowed, std::move(context),
                        [call = *std::move(call), clean](absl::StatusOr<Response> response) {
                          call->Answer(std::move(response), clean);
                        });
}

void TenantDocuments::Upsert(v1::UpsertRequest request, CallContext context, Done<v1::UpsertResponse> done,
                             Submitted submitted) {
  using OfTenant = TenantCall<v1::UpsertResponse>;
  absl::StatusOr<std::unique_ptr<OfTenant>> call =
      Admit<OfTenant>(CallKind::kScoresNothing, request, context, metrics_);
  if (!call.ok()) return RefuseAtGate(context, metrics_, done, call.status());
  if (*call == nullptr) {
    return documents_->Upsert(std::move(request), std::move(context), std::move(done), std::move(submitted));
  }
  (*call)->done = std::move(done);
  documents_->Upsert(
      std::move(request), std::move(context),
      [call = *std::move(call)](absl::StatusOr<v1::UpsertResponse> response) {
        call->Answer(std::move(response), KeepAll<v1::UpsertResponse>);
      },
      std::move(submitted));
}

void TenantDocuments::Delete(const v1::DeleteRequest& request, CallContext context, Done<v1::DeleteResponse> done) {
  PassOn(request, std::move(context), std::move(done), &DocumentApi::Delete, KeepAll<v1::DeleteResponse>);
}

void TenantDocuments::Get(const v1::GetRequest& request, CallContext context, Done<v1::GetResponse> done) {
  PassOn(request, std::move(context), std::move(done), &DocumentApi::Get, CleanDocuments<v1::GetResponse>);
}

void TenantDocuments::Scroll(const v1::ScrollRequest& request, CallContext context, Done<v1::ScrollResponse> done) {
  PassOn(request, std::move(context), std::move(done), &DocumentApi::Scroll, CleanDocuments<v1::ScrollResponse>);
}

void TenantDocuments::Count(const v1::CountRequest& request, CallContext context, Done<v1::CountResponse> done) {
  PassOn(request, std::move(context), std::move(done), &DocumentApi::Count, CleanCounts<v1::CountResponse>);
}

void TenantDocuments::Facets(const v1::FacetsRequest& request, CallContext context, Done<v1::FacetsResponse> done) {
  PassOn(request, std::move(context), std::move(done), &DocumentApi::Facets, CleanCounts<v1::FacetsResponse>);
}

bool TenantDocuments::HasIntIds(const Caller& caller, std::string_view collection) const {
  if (!caller.is_known()) return false;
  if (caller.tenant() != nullptr && !caller.tenant()->MayUse(collection)) return false;
  return documents_->HasIntIds(caller, collection);
}

}  // namespace maxsim::service
