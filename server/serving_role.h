// The role of a server of collections. It owns the backends, their memory, the lanes (threads that score), and the
// queue from which lanes take jobs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/maxsim.h"
#include "server/batching/scheduler.h"
#include "server/config/config.h"
#include "server/engine/engine.h"
#include "server/live/local/live_threads.h"
#include "server/live/shared/collection_learner.h"
#include "server/live/shared/layouts.h"
#include "server/live/shared/shared_collections.h"
#include "server/observability/metrics.h"
#include "server/observability/nvml.h"
#include "server/role.h"
#include "server/service/collection_admin.h"
#include "server/service/documents.h"
#include "server/service/local_scorer.h"
#include "server/service/request/text_encoding.h"
#include "server/service/rerank_front.h"
#include "server/startup.h"
#include "server/store/collection_store.h"
#include "server/store/memory/device_set.h"

namespace maxsim {

class ServingRole : public Role {
 public:
  // Makes the backends, the lanes and the services. If `backends` is not empty, uses these in place of the configured
  // ones. `metrics` must outlive the role.
  static absl::StatusOr<std::unique_ptr<ServingRole>> Create(const config::Config& config,
                                                             std::vector<NumberedBackend> backends, Metrics* metrics);

  service::RerankFront& front() override { return front_; }
  service::DocumentApiBase& documents() override { return documents_; }
  service::CollectionApi& collections() override { return collections_; }
  v1::GetInfoResponse Info() const override;
  // Loads the configured collections and warms up.
  absl::Status Start(const Begin& begin) override;
  // Returns an error once no device can answer any more.
  absl::Status CheckHealth() override;
  ActivityTotals Observe() override;
  absl::Status Readiness() const override { return absl::OkStatus(); }
  // Returns one line for each device that was lost while the server went on, for each collection that lacks documents
  // because of a lost device, and for each collection of the cluster that the server does not have yet.
  std::string Losses() const override;
  void ReloadAll() override;
  void StopChanges() override {
    if (learner_ != nullptr) learner_->RequestStop();
    collections_.StopBootstraps();
    store_.StopLoads();
  }
  int64_t Drain(absl::Time deadline) override;

  // For tests: the queue that requests go through.
  batching::Scheduler& scheduler() { return scheduler_; }

 private:
  ServingRole(const config::Config& config, std::vector<NumberedBackend> backends,
              std::unique_ptr<store::DeviceSet> devices, std::unique_ptr<engine::Engine> engine, Metrics* metrics);
  absl::Status EnableBootstrap();
  void UpdateDeviceMetrics();
  void ShareCollections();

  const config::Config config_;
  Metrics* const metrics_;
  // The members are in order of dependence: each uses only those above it.
  const std::vector<NumberedBackend> backends_;
  const std::unique_ptr<store::DeviceSet> devices_;
  live::LiveThreads live_threads_;  // declared before the store, whose collections use it
  // Null unless live.log is nats. The thread of layouts_ calls this object, so layouts_ is declared after it and
  // destroyed first.
  std::unique_ptr<live::SharedCollections> shared_collections_;
  // Null unless live.log is nats. Connects when a live collection is first opened.
  const std::unique_ptr<live::Layouts> layouts_;
  store::CollectionStore store_;
  const std::unique_ptr<engine::Engine> engine_;
  batching::Scheduler scheduler_;
  service::CollectionAdmin collections_;
  std::unique_ptr<live::CollectionLearner> learner_;  // null unless live.create_from_cluster
  service::TextEncoding texts_;
  service::LocalScorer scorer_;
  service::RerankFront front_;
  service::DocumentService documents_;
  size_t num_alive_ = 0;  // devices alive at the last CheckHealth
  std::unique_ptr<Nvml> nvml_;
};

}  // namespace maxsim
