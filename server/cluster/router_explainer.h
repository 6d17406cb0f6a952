// Explains scores by the group that has the document.
#pragma once

#include <memory>
#include <utility>

#include "server/cluster/router_reranker.h"
#include "server/service/api.h"

namespace maxsim::cluster {

// The class is thread-safe.
class RouterExplainer : public service::ExplainApi {
 public:
  explicit RouterExplainer(const RouterDependencies& dependencies) : deps_(dependencies) {}

  void Explain(v1::RerankRequest request, service::CallContext context,
               service::Done<service::Explanation> done) override;
  const service::RequestLimits& limits() const override { return deps_.limits; }

 private:
  struct Call;
  absl::Status CheckTexts(const v1::RerankRequest& request) const;
  void Ask(std::shared_ptr<Call> call);
  void Finish(Call& call, absl::StatusOr<service::Explanation> explanation);

  const RouterDependencies deps_;
};

}  // namespace maxsim::cluster
