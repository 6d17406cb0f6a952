// The role of a router: it has no documents and forwards calls to other servers.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "client/grpc_support.h"
#include "server/cluster/calls/call_registry.h"
#include "server/cluster/calls/timer.h"
#include "server/cluster/changes/generation_keeper.h"
#include "server/cluster/groups/membership.h"
#include "server/cluster/router_collections.h"
#include "server/cluster/router_documents.h"
#include "server/cluster/router_scorer.h"
#include "server/config/config.h"
#include "server/observability/metrics.h"
#include "server/role.h"
#include "server/service/request/text_encoding.h"
#include "server/service/rerank_front.h"

namespace maxsim {

class RouterRole : public Role {
 public:
  // Reads the token and the certificates for connecting to the servers. `metrics` must outlive the role. Errors name
  // the configuration key.
  static absl::StatusOr<std::unique_ptr<RouterRole>> Create(const config::Config& config, Metrics* metrics);
  ~RouterRole() override;

  service::RerankFront& front() override { return front_; }
  service::DocumentApiBase& documents() override { return documents_; }
  service::CollectionApi& collections() override { return collections_; }
  v1::GetInfoResponse Info() const override;
  // Waits until every group has a replica that answers, or some seconds have passed. From then on, replicas that have
  // missed a reload are told to load what the others serve.
  absl::Status Start(const Begin& begin) override;
  absl::Status CheckHealth() override { return absl::OkStatus(); }
  ActivityTotals Observe() override;
  // Returns UNAVAILABLE while no server of the cluster answers.
  absl::Status Readiness() const override;
  // Returns a line for each loss (cluster::DescribeLosses).
  std::string Losses() const override;
  void ReloadAll() override { collections_.ReloadAll(); }
  void StopChanges() override {
    stop_.Request(absl::StatusCode::kUnavailable);
    keeper_.Stop();
  }
  int64_t Drain(absl::Time deadline) override;

 private:
  RouterRole(const config::Config& config, client::ClientOptions to_replicas, Metrics* metrics);
  cluster::RouterDependencies Dependencies();

  const config::Config config_;
  Metrics* const metrics_;
  const client::CallMetadata metadata_;
  cluster::Timer timer_;
  cluster::CallRegistry calls_;
  cluster::Membership membership_;
  service::TextEncoding texts_;
  StopSignal stop_;
  cluster::RouterScorer scorer_;
  service::RerankFront front_;
  cluster::RouterDocuments documents_;
  cluster::RouterCollections collections_;
  cluster::GenerationKeeper keeper_;
};

}  // namespace maxsim
