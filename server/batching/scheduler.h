// This is the queue between the RPC layer and the engine: admission by work and time, priorities, fairness between
// clients, deadlines, cancellation, micro-batches.
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

// Takes a mark off the status and returns true when it was there. The RESOURCE_EXHAUSTED of a full queue carries the
// mark: a request that is itself too large has the same code, and retrying it is of no use.
bool TakeQueueFullMark(absl::Status& status);

// Thread-safe.
//
// An accepted job waits until a lane takes it into a batch, or until it leaves the queue unscored: within about 10 ms
// of being cancelled (CANCELLED) or of its deadline (DEADLINE_EXCEEDED), also while every lane is busy, or because it
// is displaced or has waited for max_queue_time (RESOURCE_EXHAUSTED, see below). A job that is cancelled or expires
// while it is scored gets that status in place of its result. Once no device can answer any more (Engine::Health),
// every job that waits or is being scored, and every later one, gets UNAVAILABLE.
//
// When a bound of the queue is reached, clients that hold more than a fair share of it give way: a job within its
// client's share (the bound over the number of clients that wait) is still accepted, and the newest jobs of the client
// that holds most are displaced for it. max_queue_time is fair by itself: what the other clients have waiting counts
// against a job only as far as it would be served first. A client that waits alone may fill every bound.
//
// `done` runs on a thread of the scheduler: on the lane's for a job that was scored alone, on an idle answer thread (or
// else the lane's) for jobs that were scored together, on the reaper's for jobs that left the queue unscored. It may
// also run on the caller's thread within SubmitOrScore. It must not block, and must not call Shutdown or destroy the
// scheduler.
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

  // Takes ownership and later calls job->done exactly once, when this returns OK. Otherwise the job stays with the
  // caller, untouched, and `done` is never called: RESOURCE_EXHAUSTED when the queue is full, or when the job would
  // wait for longer than max_queue_time or until its deadline (RetryDelay tells when to come back), DEADLINE_EXCEEDED
  // when its deadline has passed, UNAVAILABLE after Shutdown or when the device is lost.
  absl::Status Submit(std::unique_ptr<engine::Job>& job);

  // Submits the job of a thread that may be held up for about kShort. Where nothing waits and nothing is being scored,
  // the job is scored and answered on the calling thread, which spares the waking up of a lane's thread; so one caller
  // at a time is held up. A job is queued nevertheless when its collection is not resident; when it would take longer
  // than kShort by the recent rate of scoring (if that rate is one of batches, the job may take a few times as long
  // alone), or no rate is known yet; and always with a max_batch_delay.
  absl::Status SubmitOrScore(std::unique_ptr<engine::Job>& job);
  static constexpr absl::Duration kShort = kShortJob;

  // Returns how long a rejected client should wait: the queued work over the recent rate of scoring (an exponential
  // average over about two busy seconds), or 50 ms as long as nothing has been scored; at random up to 20 % shorter or
  // longer, so that clients which are rejected together do not come back together. 1 ms at least, 10 s at most.
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
