#include "server/service/tenant_gate/tenant_documents.h"

#include <memory>
#include <utility>

#include "server/service/tenant_gate/gate_entry.h"

namespace maxsim::service {
namespace {

// Removes sequences from answers to reads, because they count the writes of all tenants. Answers to writes keep them,
// because clients need them to wait for their own writes (min_sequence).
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

// A tenant's upsert, until its service gets it.
struct TenantDocuments::OfUpsert : TenantCall<v1::UpsertResponse> {
  // Answers a call that does not reach its service.
  void Refuse(const absl::Status& status) {
    Record(context, metrics, status);
    End(status);
  }

  void End(absl::StatusOr<v1::UpsertResponse> response) {
    write = nullptr;  // The next write may come at once, and its count has these documents.
    Answer(std::move(response), KeepAll<v1::UpsertResponse>);
  }

  v1::UpsertRequest request;
  CallContext context;
  Submitted submitted;
  CallRecord count_record;
  std::shared_ptr<const void> write;  // among the writes in progress, until the call is answered
};

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
    return Admit<OfTenant>(CallKind::kScoresNothing, narrowed, context, metrics_, source_);
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
  absl::StatusOr<std::unique_ptr<OfUpsert>> call =
      Admit<OfUpsert>(CallKind::kScoresNothing, request, context, metrics_, source_);
  if (!call.ok()) return RefuseAtGate(context, metrics_, done, call.status());
  if (*call == nullptr) {
    return documents_->Upsert(std::move(request), std::move(context), std::move(done), std::move(submitted));
  }
  OfUpsert& upsert = **call;
  upsert.done = std::move(done);
  upsert.request = std::move(request);
  upsert.context = std::move(context);
  upsert.submitted = std::move(submitted);
  const TenantQuotas& quotas = upsert.caller.tenant()->quotas();
  if (quotas.documents > 0 || quotas.bytes > 0) return PassOnWithinQuotas(*std::move(call));
  PassOn(*std::move(call));
}

void TenantDocuments::PassOnWithinQuotas(std::unique_ptr<OfUpsert> call) {
  v1::CountRequest count;
  CallContext of_count;
  absl::Status status = Guarded([&] {
    WrittenAmount amount{.documents = static_cast<uint64_t>(call->request.documents_size())};
    for (const v1::Document& document : call->request.documents()) amount.bytes += document.tokens().data().size();
    call->write = call->caller.tenant()->usage().BeginWrite(call->collection, amount);
    count.set_collection(call->collection);
    // The request's own `visible` may be narrower than the tenant's filter.
    const collection::Filter* const filter = call->caller.tenant()->filter();
    if (filter != nullptr) *count.mutable_visible() = FilterMessageOf(*filter);
    count.set_return_token_bytes(call->caller.tenant()->quotas().bytes > 0);
    of_count = {.method = call->context.method,
                .arrival = call->context.arrival,
                .deadline = call->context.deadline,
                .client = call->context.client,
                .cancelled = call->context.cancelled,
                .record = &call->count_record,  // which is never written: this is not a call of a client
                .caller = call->caller};
    return absl::OkStatus();
  });
  if (!status.ok()) return call->Refuse(status);
  // The callback is small, so that no memory is allocated for it.
  documents_->Count(
      count, std::move(of_count), [this, call = std::move(call)](absl::StatusOr<v1::CountResponse> stored) mutable {
        if (!stored.ok()) return call->Refuse(stored.status());
        const Tenant& tenant = *call->caller.tenant();
        absl::Status allowed = Guarded([&] {
          return tenant.usage().CheckWrites(
              call->collection, {.documents = stored->count(), .bytes = stored->token_bytes()}, tenant.quotas());
        });
        if (!allowed.ok()) return call->Refuse(allowed);
        PassOn(std::move(call));
      });
}

void TenantDocuments::PassOn(std::unique_ptr<OfUpsert> call) {
  v1::UpsertRequest request = std::move(call->request);
  CallContext context = std::move(call->context);
  Submitted submitted = std::move(call->submitted);
  documents_->Upsert(
      std::move(request), std::move(context),
      [call = std::move(call)](absl::StatusOr<v1::UpsertResponse> response) { call->End(std::move(response)); },
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
