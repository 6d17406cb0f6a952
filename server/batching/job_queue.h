// The scheduler's queue as a plain data structure: priorities, starvation, batch formation. No threads and no clock, so
// that its rules can be tested one by one.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/engine/job.h"

namespace maxsim::batching {

// A job that was accepted.
struct QueuedJob {
  std::unique_ptr<engine::Job> job;
  absl::Time enqueued;
  uint64_t sequence = 0;  // order of arrival

  int num_queries() const { return static_cast<int>(job->queries.size()); }
};

struct BatchLimits {
  uint64_t max_work = 0;
  int max_queries = 0;
};

// A job that left the queue unscored, and why.
struct DroppedJob {
  QueuedJob queued;
  absl::Status reason;
};

// OK, or why the job is not to be scored any more: DEADLINE_EXCEEDED (also when it was cancelled as well) or
// CANCELLED.
absl::Status CheckAlive(const engine::Job& job, absl::Time now);

// Not thread-safe.
class JobQueue {
 public:
  explicit JobQueue(absl::Duration starvation_limit) : starvation_limit_(starvation_limit) {}

  bool empty() const { return num_jobs_ == 0; }
  int64_t num_jobs() const { return num_jobs_; }
  uint64_t work() const { return work_; }    // in token pairs; whoever pushes keeps the sum below 2^64
  uint64_t bytes() const { return bytes_; }  // Job::bytes; the same
  int64_t num_queries() const { return num_queries_; }

  void Push(std::unique_ptr<engine::Job> job, absl::Time now);

  // The job that TakeBatch would begin with. The queue must not be empty.
  const QueuedJob& Head(absl::Time now) const;

  // Takes the head and, in the same order, the jobs on the same collection generation that fit beside it; stops at the
  // first of them that does not fit, so that a large job is not overtaken for ever. Jobs on other generations stay as
  // they are. The head is taken however large it is.
  //
  // The order: higher priority first, and within one by arrival; but a job that has waited for the starvation limit
  // goes before those that came after it, whatever their priority. Dead jobs on the way (CheckAlive) are appended to
  // `dropped`; the batch may be empty when there are only such.
  std::vector<QueuedJob> TakeBatch(absl::Time now, const BatchLimits& limits, std::vector<DroppedJob>* dropped);

  // Takes out every job that was cancelled or whose deadline has passed and appends it to `dropped`. Returns the
  // earliest deadline among those that stay.
  absl::Time DropDead(absl::Time now, std::vector<DroppedJob>* dropped);

  // Empties the queue.
  void DropAll(const absl::Status& reason, std::vector<DroppedJob>* dropped);

 private:
  static constexpr size_t kNumPriorities = 3;
  using Line = std::list<QueuedJob>;
  using Cursor = std::array<Line::const_iterator, kNumPriorities>;

  // Index of the line whose job at the cursor goes first; kNumPriorities when all are at their end.
  size_t FirstLine(const Cursor& cursor, absl::Time now) const;
  Cursor Begin() const;
  QueuedJob Remove(size_t line, Line::const_iterator position);

  const absl::Duration starvation_limit_;
  std::array<Line, kNumPriorities> lines_;  // by priority, each in order of arrival
  int64_t num_jobs_ = 0;
  int64_t num_queries_ = 0;
  uint64_t work_ = 0;
  uint64_t bytes_ = 0;
  uint64_t next_sequence_ = 0;
};

}  // namespace maxsim::batching
