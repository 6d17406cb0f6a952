// The tenant gate of rerank and explain calls (docs/internals/tenants.md).
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/observability/metrics.h"
#include "server/service/api.h"
#include "server/service/tenant_gate/error_source.h"

namespace maxsim::service {

// The ports call this instead of the service. It narrows calls of tenants, passes on other calls as they are, and
// refuses calls whose caller is unknown. Thread-safe.
class TenantQuestions : public RerankApi, public ExplainApi {
 public:
  // The services and `metrics` must outlive the gate and every call. `source` says whether the services' errors come
  // from a router.
  TenantQuestions(RerankApi* rerank, ExplainApi* explain, Metrics* metrics, ErrorSource source)
      : rerank_(rerank), explain_(explain), metrics_(metrics), source_(source) {}

  void Rerank(v1::RerankRequest&& request, CallContext&& context, Done<v1::RerankResponse>&& done) override;
  void Explain(v1::RerankRequest request, CallContext context, Done<v1::ExplainResponse> done) override;

  // For a tenant, chooses among its collections.
  absl::Status ChooseCollection(const Caller& caller, v1::RerankRequest* request) const override;
  void CountUnread(std::string_view method, absl::Time arrival, const absl::Status& status) override {
    rerank_->CountUnread(method, arrival, status);
  }
  const RequestLimits& limits() const override { return rerank_->limits(); }
  std::unique_ptr<v1::EncoderInfo> encoder() const override { return rerank_->encoder(); }

 private:
  RerankApi* const rerank_;
  ExplainApi* const explain_;
  Metrics* const metrics_;
  const ErrorSource source_;
};

}  // namespace maxsim::service
