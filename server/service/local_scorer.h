// Answers rerank and explain calls from the collections of this server.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/batching/scheduler.h"
#include "server/engine/job.h"
#include "server/observability/metrics.h"
#include "server/service/call/call_context.h"
#include "server/service/call/concurrency_limit.h"
#include "server/service/call/limits.h"
#include "server/service/explain.h"
#include "server/service/request/answer.h"
#include "server/service/request/inline_collections.h"
#include "server/service/request/translate.h"
#include "server/service/scorer.h"
#include "server/store/collection_store.h"

namespace boost::asio {
class thread_pool;
}  // namespace boost::asio

namespace maxsim::service {

// The class is thread-safe.
class LocalScorer : public Scorer {
 public:
  // All must outlive the scorer and every call.
  LocalScorer(const store::CollectionStore* store, batching::Scheduler* scheduler, Metrics* metrics,
              const RequestLimits& limits);
  // Every call must have been answered.
  ~LocalScorer() override;

  // Waits until `deadline` for the calls with group_by that are in progress. When the scheduler has been shut down, it
  // refuses their next rounds, which ends the calls.
  void Drain(absl::Time deadline);

  absl::StatusOr<TextTarget> TargetOf(const v1::RerankRequest& request) const override;
  // Queues a job, or scores it on the calling thread (Scheduler::SubmitOrScore).
  void Answer(std::unique_ptr<RerankCall> call) override;
  // Computes the explanation on the calling thread. Fails with FAILED_PRECONDITION if the document's vectors are only
  // on a device and the file that they came from was replaced.
  void Answer(std::unique_ptr<ExplainCall> call) override;
  Rejection RejectionOf(const absl::Status& status) const override;
  bool IsServed(const std::string& collection) const override;
  std::vector<std::string> Names() const override;

 private:
  class GroupedCall;

  // Scores the rounds of a call with group_by one after another.
  void AnswerGrouped(std::unique_ptr<RerankCall> call, Translated translated);
  void NextRound(std::shared_ptr<GroupedCall> grouped);
  static void SetCaller(const CallContext& context, const PendingAnswer& answer, engine::Job& job);
  // Adds the retry delay to `status` if it says that the scheduler's queue is full.
  absl::Status WithRetryDelay(absl::Status status) const;
  absl::StatusOr<v1::RerankResponse> Build(const PendingAnswer& answer, const engine::JobResult& result);
  absl::StatusOr<std::shared_ptr<const store::Collection>> CollectionFor(const v1::RerankRequest& request);

  const store::CollectionStore* const store_;
  InlineCollections inline_collections_;
  batching::Scheduler* const scheduler_;
  Metrics* const metrics_;
  const RequestLimits limits_;
  ConcurrencyLimit explanations_ = ExplanationLimit();
  Mutex grouped_mutex_;
  ConditionVariable grouped_changed_;
  int64_t num_grouped_ ABSL_GUARDED_BY(grouped_mutex_) = 0;  // calls with group_by
  std::once_flag grouping_threads_made_;
  std::unique_ptr<boost::asio::thread_pool> grouping_threads_;  // null until a call has group_by
};

}  // namespace maxsim::service
