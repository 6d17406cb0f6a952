// The tenant gate of the calls of Documents (docs/internals/tenants.md).
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "maxsim/v1/documents.pb.h"
#include "server/observability/metrics.h"
#include "server/service/api.h"
#include "server/service/tenant_gate/error_source.h"

namespace maxsim::service {

// The ports call this instead of the service. It narrows calls of tenants, passes on other calls as they are, and
// refuses calls whose caller is unknown. Thread-safe.
class TenantDocuments : public DocumentApi {
 public:
  // `documents` and `metrics` must outlive the gate and every call. `source` says whether the errors of `documents`
  // come from a router.
  TenantDocuments(DocumentApi* documents, Metrics* metrics, ErrorSource source)
      : documents_(documents), metrics_(metrics), source_(source) {}

  void Upsert(v1::UpsertRequest request, CallContext context, Done<v1::UpsertResponse> done,
              Submitted submitted = nullptr) override;
  void Delete(const v1::DeleteRequest& request, CallContext context, Done<v1::DeleteResponse> done) override;
  void Get(const v1::GetRequest& request, CallContext context, Done<v1::GetResponse> done) override;
  void Scroll(const v1::ScrollRequest& request, CallContext context, Done<v1::ScrollResponse> done) override;
  void Count(const v1::CountRequest& request, CallContext context, Done<v1::CountResponse> done) override;
  void Facets(const v1::FacetsRequest& request, CallContext context, Done<v1::FacetsResponse> done) override;

  bool HasIntIds(const Caller& caller, std::string_view collection) const override;
  void CountUnread(std::string_view method, absl::Time arrival, const absl::Status& status) const override {
    documents_->CountUnread(method, arrival, status);
  }
  const RequestLimits& limits() const override { return documents_->limits(); }

 private:
  template <typename Request, typename Response>
  using Method = void (DocumentApi::*)(const Request&, CallContext, Done<Response>);

  // Passes on a call that takes its request by reference. `clean` removes from the response what would tell of other
  // tenants.
  template <typename Request, typename Response, typename Clean>
  void PassOn(const Request& request, CallContext context, Done<Response> done, Method<Request, Response> method,
              Clean clean);

  struct OfUpsert;
  // Counts the tenant's documents, and passes on the write if its quotas allow it.
  void PassOnWithinQuotas(std::unique_ptr<OfUpsert> call);
  void PassOn(std::unique_ptr<OfUpsert> call);

  DocumentApi* const documents_;
  Metrics* const metrics_;
  const ErrorSource source_;
};

}  // namespace maxsim::service
