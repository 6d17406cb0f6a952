// Scores by the collections of this server.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/batching/scheduler.h"
#include "server/engine/job.h"
#include "server/observability/metrics.h"
#include "server/service/call/concurrency_limit.h"
#include "server/service/call/limits.h"
#include "server/service/explain.h"
#include "server/service/request/answer.h"
#include "server/service/request/inline_collections.h"
#include "server/service/scorer.h"
#include "server/store/collection_store.h"

namespace maxsim::service {

// The class is thread-safe.
class LocalScorer : public Scorer {
 public:
  // All must outlive the scorer and every call.
  LocalScorer(const store::CollectionStore* store, batching::Scheduler* scheduler, Metrics* metrics,
              const RequestLimits& limits)
      : store_(store), scheduler_(scheduler), metrics_(metrics), limits_(limits) {}

  absl::StatusOr<TextTarget> TargetOf(const v1::RerankRequest& request) const override;
  // Queues a job, or scores it on the calling thread (Scheduler::SubmitOrScore).
  void Answer(std::unique_ptr<RerankCall> call) override;
  // Computes on the calling thread. FAILED_PRECONDITION where the document's vectors are on a device alone and their
  // file was replaced.
  void Answer(std::unique_ptr<ExplainCall> call) override;
  Rejection RejectionOf(const absl::Status& status) const override;
  bool IsServed(const std::string& collection) const override;
  std::vector<std::string> Names() const override;

 private:
  absl::StatusOr<v1::RerankResponse> Build(const PendingAnswer& answer, const engine::JobResult& result);
  absl::StatusOr<std::shared_ptr<const store::Collection>> CollectionFor(const v1::RerankRequest& request);

  const store::CollectionStore* const store_;
  InlineCollections inline_collections_;
  batching::Scheduler* const scheduler_;
  Metrics* const metrics_;
  const RequestLimits limits_;
  ConcurrencyLimit explanations_{kMaxExplanations};
};

}  // namespace maxsim::service
