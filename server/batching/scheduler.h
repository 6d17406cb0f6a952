// The queue between the RPC layer and the engine: admission by work and time, priorities, fairness between clients,
// deadlines, cancellation, micro-batches.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/batching/scheduler_options.h"
#include "server/engine/engine.h"
#include "server/engine/job.h"
#include "server/observability/metrics.h"

namespace maxsim::batching {

// The RESOURCE_EXHAUSTED of a queue that is full carries a mark, for a request that is itself too large has the same
// code and no use of trying again. Takes the mark off; true when it was there.
bool TakeQueueFullMark(absl::Status& status);

// Thread-safe.
//
// What happens to an accepted job: it waits; a lane takes it into a batch, or it leaves the queue because it was
// cancelled (CANCELLED) or expired (DEADLINE_EXCEEDED), within about 10 ms also while every lane is busy, or was
// displaced (RESOURCE_EXHAUSTED, see below); it is scored; a job whose deadline passed or that was cancelled meanwhile
// gets that status in place of its result. Once no device can answer any more (Engine::Health), every job that waits or
// is being scored, and every later one, gets UNAVAILABLE.
//
// When a bound of the queue is reached, who holds more than a fair share of it gives way: a job within its client's
// share (the bound over the number of clients that wait) is still accepted, and the newest jobs of the client that
// holds most are displaced for it. max_queue_time is fair by itself: what the other clients have waiting counts against
// a job only as far as it would be served first. A client that waits alone may fill every bound.
//
// `done` runs on a thread of the scheduler: for jobs that were scored the lane's when the job is alone, and one that
// answers, while there is a free one, when it is not; the reaper's for those that were dropped; or on the caller's
// within SubmitOrScore. It must not block, and must not call Shutdown or destroy the scheduler.
//
// Metrics: counts a rejection (kQueueFull, kQueueTime, kDisplaced, kDeadline, kCancelled, kDevice, kShutdown, kInvalid)
// for every error that Submit returns or `done` gets, so callers count only what they refuse before Submit (kInvalid is
// what the request is to blame for, INVALID_ARGUMENT and RESOURCE_EXHAUSTED of the engine; kDevice also a call that
// failed, INTERNAL); queue and in-flight gauges, queue times and batches.
class Scheduler {
 public:
  // Starts two threads a lane, one of which answers, and one that drops what must leave the queue. `engine` and
  // `metrics` must outlive the scheduler.
  Scheduler(engine::Engine* engine, Metrics* metrics, SchedulerOptions options);
  // Drains without a time limit if Shutdown was not called. No call of Submit or SubmitOrScore may be under way.
  ~Scheduler();

  // Takes ownership and later calls job->done exactly once, when this returns OK. Otherwise the job stays with the
  // caller, untouched, and `done` is never called: RESOURCE_EXHAUSTED when the queue is full, or when the job would
  // wait for longer than max_queue_time or until its deadline (RetryDelay tells when to come back), DEADLINE_EXCEEDED
  // when its deadline has passed, UNAVAILABLE after Shutdown or when the device is lost.
  absl::Status Submit(std::unique_ptr<engine::Job>& job);

  // Submit for a thread that may be held up for about kShort. Where nothing waits and nothing is being scored, the job
  // is scored and answered on the calling thread, which spares it the waking up of a lane's; so one thread at a time is
  // held up. Queued are jobs on collections that are not resident; a job that takes longer than kShort by the recent
  // rate of scoring (where that was one of batches, it may take a few times as long alone), or comes before a rate is
  // known; and with a max_batch_delay all.
  absl::Status SubmitOrScore(std::unique_ptr<engine::Job>& job);
  static constexpr absl::Duration kShort = kShortJob;

  // How long a rejected client should wait: the queued work over the recent rate of scoring (an exponential average
  // over about two busy seconds), or 50 ms as long as nothing has been scored; at random up to 20 % shorter or longer,
  // so that clients which are rejected together do not come back together. 1 ms at least, 10 s at most.
  absl::Duration RetryDelay() const;

  SchedulerStats stats() const;

  // Refuses new jobs, lets accepted ones finish until `deadline` (of MonotonicNow()), fails the rest with UNAVAILABLE,
  // joins the threads. A backend call that runs at the deadline is waited for; jobs it does not finish are failed.
  // Every `done` has been called when this returns. Returns the number of jobs that were failed. Calling it again
  // returns 0.
  int64_t Shutdown(absl::Time deadline);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace maxsim::batching
