// Options and statistics of the scheduler.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace maxsim::batching {

// The longest that a job may hold up the thread that submits it (Scheduler::SubmitOrScore).
inline constexpr absl::Duration kShortJob = absl::Microseconds(500);

struct SchedulerOptions {
  // Bounds the token pairs that wait in the queue. A job that would pass the bound is rejected, unless the queue is
  // empty (so that one large job can always run). Jobs that are being scored are not counted.
  uint64_t max_queue_work = uint64_t{1} << 36;
  int64_t max_queue_jobs = 16384;
  // Bounds the sum of Job::bytes that wait in the queue, by the rule of max_queue_work.
  uint64_t max_queue_bytes = uint64_t{1} << 30;
  // Limits how long a job waits for its batch to begin; 0 means no limit. The queue rejects a job on arrival if its
  // estimated wait is longer. The estimate is the work that would be served before the job (JobQueue::WorkAhead) plus
  // the work that the busy lanes have left, divided by the recent scoring rate. There is no estimate while the queue is
  // empty or no rate has been measured. An accepted job may still wait this long, because later jobs were served before
  // it or batches took longer than expected; it then leaves the queue unscored. Batches are kept so small that, at the
  // recent rate, each takes at most this time, or half of it while several clients wait. Two kinds of batches may take
  // longer: those that stream a collection, and a single larger job, which runs alone. The scoring time itself is not
  // limited.
  absl::Duration max_queue_time = absl::Seconds(1);
  // A lane that becomes free takes a batch of waiting jobs, up to max_batch_work and max_batch_queries. With a
  // max_batch_delay of 0, it takes them immediately, even if there is only one job. Otherwise a free lane that finds a
  // smaller batch waits for more jobs to arrive: until max_batch_delay after the arrival of the batch's first job, but
  // at most half of the time that this job has until it expires. The delay limits neither the time in the queue nor the
  // time of scoring. A job that is larger than a maximum runs in a batch of its own.
  absl::Duration max_batch_delay = absl::ZeroDuration();
  uint64_t max_batch_work = uint64_t{1} << 32;
  int max_batch_queries = 64;
  // Once a job of lower priority has waited this long, it goes before newer jobs of higher priority (aging).
  absl::Duration starvation_limit = absl::Milliseconds(500);
};

struct SchedulerStats {
  int64_t queued_jobs = 0;
  int64_t queued_clients = 0;
  uint64_t queued_work = 0;
  uint64_t queued_bytes = 0;
  int64_t running_jobs = 0;
};

}  // namespace maxsim::batching
