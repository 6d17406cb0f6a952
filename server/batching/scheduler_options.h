// Options and statistics of the scheduler.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace maxsim::batching {

// The longest that a job may hold up the thread that submits it (Scheduler::SubmitOrScore).
inline constexpr absl::Duration kShortJob = absl::Microseconds(500);

struct SchedulerOptions {
  // Bounds the token pairs that wait in the queue. A job that would pass the bound is rejected, unless the queue is
  // empty (so that one large job can always run). What is being scored is not counted.
  uint64_t max_queue_work = uint64_t{1} << 36;
  int64_t max_queue_jobs = 16384;
  // Bounds the sum of Job::bytes that wait in the queue, by the rule of max_queue_work.
  uint64_t max_queue_bytes = uint64_t{1} << 30;
  // Limits how long a job waits for its batch to begin; 0 means no limit. A job that would wait longer is rejected on
  // arrival, by an estimate: the work that would be served before it (JobQueue::WorkAhead) plus what the lanes have
  // left, divided by the recent scoring rate. The estimate applies once a rate has been measured and while jobs wait.
  // An accepted job that nevertheless has waited this long, because later jobs were served before it or batches took
  // longer than expected, leaves the queue unscored. By the recent rate, no batch that does not stream a collection
  // takes longer than this time, or half of it while several clients wait; a single larger job runs alone. The scoring
  // time itself is not limited.
  absl::Duration max_queue_time = absl::Seconds(1);
  // While every lane is busy, a batch gathers until its work or query count reaches the maximum; a free lane takes what
  // waits at once. max_batch_delay bounds how long a *free* lane may hold back a small batch for company, counted
  // from the arrival of its first job and never more than half of the time that job has until its deadline; 0 never
  // does. It bounds neither the time in the queue nor the time of scoring. A job larger than both maxima runs in a
  // batch alone.
  absl::Duration max_batch_delay = absl::ZeroDuration();
  uint64_t max_batch_work = uint64_t{1} << 32;
  int max_batch_queries = 64;
  // This is the limit of aging: a job of lower priority that has waited this long goes before newer jobs of higher
  // priority.
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
