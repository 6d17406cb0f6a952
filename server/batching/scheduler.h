// The queue between the RPC layer and the engine: admission by work, priorities, deadlines, cancellation,
// micro-batches.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/engine/engine.h"
#include "server/engine/job.h"
#include "server/metrics.h"

namespace maxsim::batching {

struct SchedulerOptions {
  // Token pairs that may wait in the queue. A job that would pass it is rejected, unless the queue is empty (so that
  // one large job can always run). Does not bound what is being scored.
  uint64_t max_queue_work = uint64_t{1} << 36;
  int64_t max_queue_jobs = 16384;
  // While every lane is busy, a batch gathers until its work or query count reaches the maximum; a free lane takes what
  // is there at once. max_batch_delay bounds how long a *free* lane may hold back a small batch for company; 0 never
  // does. It bounds neither the time in the queue nor the time of scoring.
  absl::Duration max_batch_delay = absl::ZeroDuration();
  uint64_t max_batch_work = uint64_t{1} << 32;
  int max_batch_queries = 64;
  // A job of lower priority that has waited this long goes before newer ones of higher priority.
  absl::Duration starvation_limit = absl::Milliseconds(500);
};

struct SchedulerStats {
  int64_t queued_jobs = 0;
  uint64_t queued_work = 0;
  int64_t running_jobs = 0;
};

// Thread-safe.
class Scheduler {
 public:
  // Starts one thread a lane. `engine` and `metrics` must outlive the scheduler.
  Scheduler(engine::Engine* engine, Metrics* metrics, SchedulerOptions options);
  // Drains without a time limit if Shutdown was not called.
  ~Scheduler();

  // Takes ownership and later calls job->done exactly once, when this returns OK. Otherwise the job stays with the
  // caller, untouched, and `done` is never called: RESOURCE_EXHAUSTED when the queue is full (RetryDelay tells when to
  // come back), DEADLINE_EXCEEDED when its deadline has passed, UNAVAILABLE after Shutdown or when the device is lost.
  absl::Status Submit(std::unique_ptr<engine::Job>& job);

  // How long a rejected client should wait: the queued work over the recent rate of scoring, 1 ms at least, 10 s at
  // most.
  absl::Duration RetryDelay() const;

  SchedulerStats stats() const;

  // Refuses new jobs, lets accepted ones finish until `deadline`, fails the rest with UNAVAILABLE, joins the threads.
  // Returns the number of jobs that were failed. Calling it again returns 0.
  int64_t Shutdown(absl::Time deadline);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace maxsim::batching
