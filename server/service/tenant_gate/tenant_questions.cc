#include "server/service/tenant_gate/tenant_questions.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/monotonic_clock.h"
#include "base/text.h"
#include "server/service/call/status.h"
#include "server/service/request/translate.h"
#include "server/service/tenant_gate/gate_entry.h"

namespace maxsim::service {
namespace {

// A tenant's rerank call, and what its answer must not tell.
struct TenantRerank : TenantCall<v1::RerankResponse> {
  void NoteWholeQueries(const v1::RerankRequest& request) {
    offset = request.offset();
    for (const v1::Query& query : request.queries()) {
      is_whole.push_back(CandidatesOf(request, query).has_whole_collection());
    }
  }

  // Replaces positions in the whole collection, which are ordinals and tell how many documents others have, by ranks.
  void Clean(v1::RerankResponse& response) const {
    response.set_sequence(0);
    for (int query = 0; query < response.results_size(); ++query) {
      if (!is_whole[static_cast<size_t>(query)]) continue;
      auto& positions = *response.mutable_results(query)->mutable_positions();
      for (int i = 0; i < positions.size(); ++i) positions.Set(i, offset + static_cast<uint64_t>(i));
    }
  }

  std::vector<bool> is_whole;  // [queries] the query is of the whole collection
  uint64_t offset = 0;
};

// A tenant's explain call.
struct TenantExplain : TenantCall<v1::ExplainResponse> {
  // Charges the call for the similarities that were computed.
  void Charge(const v1::ExplainResponse& response) const {
    const uint64_t num_pairs = uint64_t{response.num_query_tokens()} * response.num_document_tokens();
    const Tenant& tenant = *caller.tenant();
    tenant.usage().AddTokenPairs(num_pairs, tenant.quotas(), MonotonicNow());
    Guarded([&] {
      metrics->tenants().AddTokenPairs(tenant.usage().label(), num_pairs);
      return absl::OkStatus();
    }).IgnoreError();
  }
};

Rejection RejectionAtGate(const absl::Status& status) {
  if (IsQuotaError(status)) return Rejection::kTenantQuota;
  if (absl::IsResourceExhausted(status)) return Rejection::kMemory;
  return absl::IsNotFound(status) ? Rejection::kNotFound : Rejection::kInvalid;
}

}  // namespace

void TenantQuestions::Rerank(v1::RerankRequest&& request, CallContext&& context, Done<v1::RerankResponse>&& done) {
  absl::StatusOr<std::unique_ptr<TenantRerank>> call =
      Admit<TenantRerank>(CallKind::kScores, request, context, metrics_, source_);
  if (call.ok() && *call != nullptr) {
    absl::Status status = Guarded([&] {
      (*call)->NoteWholeQueries(request);
      return absl::OkStatus();
    });
    if (!status.ok()) call = std::move(status);
  }
  if (!call.ok()) {
    metrics_->CountRejection(RejectionAtGate(call.status()));
    return RefuseAtGate(context, metrics_, done, call.status());
  }
  if (*call == nullptr) return rerank_->Rerank(std::move(request), std::move(context), std::move(done));
  // A router learns from its groups what it must charge.
  if (context.caller.tenant()->quotas().token_pairs_per_second > 0) request.set_return_token_pairs(true);
  (*call)->done = std::move(done);
  // The callback is small, so that no memory is allocated for it.
  rerank_->Rerank(std::move(request), std::move(context),
                  [call = *std::move(call)](absl::StatusOr<v1::RerankResponse> response) {
                    // Hide group names. unavailable_documents still says that some are missing.
                    if (response.ok()) response->clear_unavailable_groups();
                    call->Answer(std::move(response), [&](v1::RerankResponse& answer) { call->Clean(answer); });
                  });
}

void TenantQuestions::Explain(v1::RerankRequest request, CallContext context, Done<v1::ExplainResponse> done) {
  absl::StatusOr<std::unique_ptr<TenantExplain>> call =
      Admit<TenantExplain>(CallKind::kScores, request, context, metrics_, source_);
  if (!call.ok()) return RefuseAtGate(context, metrics_, done, call.status());
  if (*call == nullptr) return explain_->Explain(std::move(request), std::move(context), std::move(done));
  (*call)->done = std::move(done);
  explain_->Explain(std::move(request), std::move(context),
                    [call = *std::move(call)](absl::StatusOr<v1::ExplainResponse> response) {
                      if (response.ok()) call->Charge(*response);
                      call->Answer(std::move(response), [](v1::ExplainResponse&) {});
                    });
}

absl::Status TenantQuestions::ChooseCollection(const Caller& caller, v1::RerankRequest* request) const {
  if (absl::Status status = CheckKnown(caller); !status.ok()) return status;
  const Tenant* const tenant = caller.tenant();
  if (tenant == nullptr || tenant->collections().empty()) return rerank_->ChooseCollection(caller, request);
  if (HasInlineDocumentsAlone(*request)) {
    if (!tenant->MayUse(request->collection())) request->clear_collection();
    return rerank_->ChooseCollection(caller, request);
  }
  if (!request->collection().empty()) return absl::OkStatus();  // Rerank refuses one that is not the tenant's
  const std::vector<std::string>& collections = tenant->collections();
  if (collections.size() > 1) {
    return InvalidField("model", Cat("is missing, but the token is for ", collections.size(), " collections"));
  }
  request->set_collection(collections.front());
  return absl::OkStatus();
}

}  // namespace maxsim::service
