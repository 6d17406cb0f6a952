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
// request that is itself too large gets the same code without the mark: to retry it is of no use.
bool TakeQueueFullMark(absl::Status& status);

// Thread-safe.
//
// An accepted job waits until a lane (a scoring thread) takes it into a batch, or until it leaves the queue unscored.
// It leaves unscored within about 10 ms of being cancelled (CANCELLED) or of its deadline (DEADLINE_EXCEEDED), even
// while every lane is busy. It also does if it is displaced or has waited for max_queue_time (RESOURCE_EXHAUSTED, see
// below). A job that is cancelled or expires while it is scored gets that status in place of its result. Once no device
// can answer any more (Engine::Health), every job that waits or is being scored, and every later one, gets UNAVAILABLE.
//
// When the queue has reached one of its bounds, clients that hold more than a fair share of that bound give way. A
// client's fair share is the bound divided by the number of clients with waiting jobs. A job within its client's share
// is still accepted, and displaces (removes) the newest jobs of the client that holds most. A client that is the only
// one with waiting jobs may fill every bound. max_queue_time needs no shares: other clients' jobs lengthen a job's
// estimated wait only if they would be served before it.
//
// `done` runs on one of these threads. For a job that was scored: an answer thread, or the lane's if no answer thread
// is idle; the lane's also if the job was scored alone and no other job waits. For a job that left the queue unscored:
// the reaper's. Within SubmitOrScore it may also run on the caller's thread. `done` must not block, and must not call
// Shutdown or destroy the scheduler.
//
// Metrics: counts a rejection (kQueueFull, kQueueTime, kDisplaced, kDeadline, kCancelled, kDevice, kShutdown, kInvalid)
// for every error that Submit returns or `done` gets. So callers count only requests that they refuse before Submit.
// kInvalid means that the request is to blame (the engine returned INVALID_ARGUMENT or RESOURCE_EXHAUSTED); kDevice
// includes calls that failed with INTERNAL. Also sets the gauges of the queue and of jobs in flight, and records queue
// times and batches.
class Scheduler {
 public:
  // Starts two threads per lane, one to score and one to answer, and one thread that removes cancelled and expired jobs
  // from the queue. `engine` and `metrics` must outlive the scheduler.
  Scheduler(engine::Engine* engine, Metrics* metrics, SchedulerOptions options);
  // If Shutdown was not called, first finishes all accepted jobs, without a time limit. No call of Submit or
  // SubmitOrScore may be under way.
  ~Scheduler();

  // If this returns OK, it has taken the job, and calls job->done exactly once later. After an error the job stays with
  // the caller, untouched, and `done` is never called. Returns RESOURCE_EXHAUSTED if the queue is full, or if the job
  // would wait for longer than max_queue_time or until its deadline (RetryDelay tells when to retry); DEADLINE_EXCEEDED
  // if its deadline has passed; UNAVAILABLE after Shutdown or when the device is lost.
  absl::Status Submit(std::unique_ptr<engine::Job>& job);

  // Like Submit, for a thread that may be held up for about kShort. If no job waits and none is being scored, scores
  // and answers the job on the calling thread, which saves the time to wake a lane's thread. Only one caller at a time
  // is held up. The job is queued nevertheless if there is a max_batch_delay, if its collection is not resident, if no
  // scoring rate is known yet, or if the job would take longer than kShort at the recent rate. If that rate was
  // measured on batches, a single job may take a few times as long as estimated.
  absl::Status SubmitOrScore(std::unique_ptr<engine::Job>& job);
  static constexpr absl::Duration kShort = kShortJob;

  // Returns how long a rejected client should wait before it retries, from 1 ms to 10 s: the queued work divided by the
  // recent scoring rate (an exponential average over about two busy seconds), or 50 ms if nothing has been scored yet.
  // Varies the result randomly by up to 20 %, so that clients that were rejected together do not retry together.
  absl::Duration RetryDelay() const;

  SchedulerStats stats() const;

  // Refuses new jobs, lets accepted ones finish until `deadline` (a time of MonotonicNow()), fails the rest with
  // UNAVAILABLE, and joins the threads. If a backend call is still running at the deadline, waits for that call to
  // return, and fails the jobs that it did not finish. When Shutdown returns, `done` of every job has been called.
  // Returns the number of jobs that it failed; a second call returns 0.
  int64_t Shutdown(absl::Time deadline);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace maxsim::batching
