// Options and statistics of the scheduler.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace maxsim::batching {

// The longest time for which SubmitOrScore may use the caller's thread.
inline constexpr absl::Duration kShortJob = absl::Microseconds(500);

struct SchedulerOptions {
  // Limits the token pairs that wait in the queue. A job that would exceed the limit is rejected, unless it displaces
  // other jobs (scheduler.h) or the queue is empty (so that one large job can always run). Jobs that are being scored
  // do not count.
  uint64_t max_queue_work = uint64_t{1} << 36;
  int64_t max_queue_jobs = 16384;
  // Limits the Job::bytes that wait in the queue, by the rule of max_queue_work.
  uint64_t max_queue_bytes = uint64_t{1} << 30;
  // Limits how long a job waits for its batch to begin; 0 means no limit. The queue rejects a job on arrival if its
  // estimated wait is longer. The estimate is the work that would be served before the job (JobQueue::WorkAhead) plus
  // the work that the busy lanes have left, divided by the recent scoring rate. There is no estimate while the queue is
  // empty or no rate has been measured.
  //
  // An accepted job leaves the queue unscored when it has waited this long. That can happen because later jobs were
  // served before it or because batches took longer than expected. So batches are kept small: at the recent rate, each
  // takes at most this time, or half of it while several clients wait. Two kinds of batches may take longer: those that
  // stream a collection to the GPU, and a single larger job, which runs alone.
  absl::Duration max_queue_time = absl::Seconds(1);
  // How long a free lane (a scoring thread) lets a batch gather more jobs. With 0, the lane takes the waiting jobs
  // immediately, even if there is only one. Otherwise it waits, unless the batch already has max_batch_work or
  // max_batch_queries: until max_batch_delay after the arrival of the batch's first job, but at most half of the time
  // that this job has until it expires. A job that is larger than a maximum runs in a batch of its own.
  absl::Duration max_batch_delay = absl::ZeroDuration();
  uint64_t max_batch_work = uint64_t{1} << 32;
  int max_batch_queries = 64;
  // A job that has waited this long goes before newer jobs of higher priority.
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
