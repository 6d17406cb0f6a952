// The queue between the RPC layer and the engine. It admits jobs by work and waiting time, orders them by priority and
// fairly between clients, drops those that expire or are cancelled, and forms batches.
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

// Returns true if the status is the RESOURCE_EXHAUSTED of a full queue, which carries a mark, and removes the mark. A
// request that is itself too large gets the same code without the mark, and retrying it is of no use.
bool TakeQueueFullMark(absl::Status& status);

// Thread-safe.
//
// An accepted job waits until a lane takes it into a batch, or until it leaves the queue unscored. It leaves unscored
// within about 10 ms of being cancelled (CANCELLED) or of its deadline (DEADLINE_EXCEEDED), even while every lane is
// busy, and when it is displaced or has waited for max_queue_time (RESOURCE_EXHAUSTED, see below). A job that is
// cancelled or expires while it is scored gets that status in place of its result. Once no device can answer any more
// (Engine::Health), every job that waits or is being scored, and every later one, gets UNAVAILABLE.
//
// When the queue has reached one of its bounds, clients that hold more than a fair share of that bound give way. A
// client's fair share is the bound divided by the number of clients with waiting jobs. A job within its client's share
// is still accepted, and displaces the newest jobs of the client that holds most. max_queue_time is fair by itself:
// other clients' jobs lengthen a job's estimated wait only if they would be served before it. A client that is the only
// one with waiting jobs may fill every bound.
//
// `done` runs on a thread of the scheduler: on the lane's thread for a job that was scored alone; on an idle answer
// thread, or on the lane's if none is idle, for jobs that were scored together; on the reaper's for jobs that left the
// queue unscored. It may also run on the caller's thread within SubmitOrScore. It must not block, and must not call
// Shutdown or destroy the scheduler.
//
// Metrics: counts a rejection (kQueueFull, kQueueTime, kDisplaced, kDeadline, kCancelled, kDevice, kShutdown, kInvalid)
// for every error that Submit returns or `done` gets, so callers must count only what they refuse before Submit.
// kInvalid means that the request is to blame (the engine returned INVALID_ARGUMENT or RESOURCE_EXHAUSTED); kDevice
// includes calls that failed with INTERNAL. Also sets the gauges of the queue and of jobs in flight, and records queue
// times and batches.
class Scheduler {
 public:
  // Starts two threads per lane, one to score and one to answer, and a thread that drops jobs which must leave the
  // queue. `engine` and `metrics` must outlive the scheduler.
  Scheduler(engine::Engine* engine, Metrics* metrics, SchedulerOptions options);
  // Drains without a time limit if Shutdown was not called. No call of Submit or SubmitOrScore may be under way.
  ~Scheduler();

  // If this returns OK, it has taken the job, and calls job->done exactly once later. After an error the job stays with
  // the caller, untouched, and `done` is never called. RESOURCE_EXHAUSTED if the queue is full, or if the job would
  // wait for longer than max_queue_time or until its deadline (RetryDelay tells when to come back); DEADLINE_EXCEEDED
  // if its deadline has passed; UNAVAILABLE after Shutdown or when the device is lost.
  absl::Status Submit(std::unique_ptr<engine::Job>& job);

  // Like Submit, for a thread that may be held up for about kShort. If no job waits and none is being scored, this
  // scores and answers the job on the calling thread, which saves the time to wake a lane's thread. So at most one
  // caller at a time is held up. The job is queued nevertheless if there is a max_batch_delay, if its collection is not
  // resident, if no scoring rate is known yet, or if the job would take longer than kShort at the recent rate. If that
  // rate was measured on batches, a single job may take a few times as long as estimated.
  absl::Status SubmitOrScore(std::unique_ptr<engine::Job>& job);
  static constexpr absl::Duration kShort = kShortJob;

  // Returns how long a rejected client should wait before it retries, from 1 ms to 10 s: the queued work divided by the
  // recent scoring rate (an exponential average over about two busy seconds), or 50 ms if nothing has been scored yet.
  // The result is randomly up to 20 % shorter or longer, so that clients that were rejected together do not retry
  // together.
  absl::Duration RetryDelay() const;

  SchedulerStats stats() const;

  // Refuses new jobs, lets accepted ones finish until `deadline` (a time of MonotonicNow()), fails the rest with
  // UNAVAILABLE, and joins the threads. If a backend call is still running at the deadline, waits for it to return, and
  // fails the jobs that it did not finish. Every `done` has been called when this returns. Returns the number of jobs
  // that it failed; a second call returns 0.
  int64_t Shutdown(absl::Time deadline);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace maxsim::batching
