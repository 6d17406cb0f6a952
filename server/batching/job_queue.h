// The scheduler's queue as a plain data structure: priorities, starvation, fairness between clients, batch formation.
// No threads and no clock, so that its rules can be tested one by one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/batching/fair_line.h"
#include "server/engine/job.h"

namespace maxsim::batching {

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

// What may wait, or what does.
struct Amount {
  int64_t jobs = 0;
  uint64_t work = 0;
  uint64_t bytes = 0;
};

// Not thread-safe.
class JobQueue {
 public:
  explicit JobQueue(absl::Duration starvation_limit) : starvation_limit_(starvation_limit) {}

  bool empty() const { return total_.jobs == 0; }
  int64_t num_jobs() const { return total_.jobs; }
  uint64_t work() const { return total_.work; }    // in token pairs; whoever pushes keeps the sum below 2^64
  uint64_t bytes() const { return total_.bytes; }  // Job::bytes; the same
  int64_t num_queries() const { return num_queries_; }
  int64_t num_clients() const { return static_cast<int64_t>(held_.size()); }  // that have a job here

  void Push(std::unique_ptr<engine::Job> job, absl::Time now);

  // The job that TakeBatch would begin with. The queue must not be empty.
  const QueuedJob& Head(absl::Time now) const;

  // Work that would be served before a job of this priority, client and price, if it came now and nothing after it:
  // that of higher priorities, and of its own the lesser of all that waits and of what the other clients are served in
  // turn until this one's jobs are through. Saturates. Jobs of lower priority that starve are not counted.
  uint64_t WorkAhead(engine::Priority priority, uint64_t client, uint64_t work) const;

  // Makes room for a job that is within its client's fair share, by taking out the newest jobs, lowest priority first,
  // of the client that holds most; they are appended to `removed`. The fair share of a bound is the bound over the
  // number of clients that wait, the job's included. False, with nothing taken out, when the job is beyond that share
  // of a bound that it breaks; also false, with what was taken out, when the client that holds most has only jobs of
  // higher priority. O(clients that wait) for each job that it takes out.
  bool MakeRoom(const engine::Job& job, const Amount& bounds, std::vector<QueuedJob>* removed);

  // True when the job keeps to the bounds together with what waits.
  bool Fits(const engine::Job& job, const Amount& bounds) const;

  // Takes the head and, in the same order, the jobs on the same collection generation that fit beside it; stops at the
  // first of them that does not fit, so that a large job is not overtaken for ever. Jobs on other generations stay as
  // they are. The head is taken however large it is.
  //
  // The order: higher priority first, and within one as FairLine has it: clients take turns, and each client's jobs go
  // by arrival. But where the next job of one priority has waited for the starvation limit, it goes before the next of
  // another that came after it, whatever their priorities. Dead jobs on the way (CheckAlive) are appended to `dropped`;
  // the batch may be empty when there are only such.
  std::vector<QueuedJob> TakeBatch(absl::Time now, const BatchLimits& limits, std::vector<DroppedJob>* dropped);

  // Takes out every job that was cancelled or whose deadline has passed and appends it to `dropped`. Returns the
  // earliest deadline among those that stay.
  absl::Time DropDead(absl::Time now, std::vector<DroppedJob>* dropped);

  // Empties the queue.
  void DropAll(const absl::Status& reason, std::vector<DroppedJob>* dropped);

 private:
  static constexpr size_t kNumPriorities = 3;

  // Index of the line whose next job, as `next(line)` tells it (null: none), goes first; kNumPriorities without one.
  template <typename Next>
  size_t FirstLine(Next next, absl::Time now) const;
  void Left(const QueuedJob& job);

  const absl::Duration starvation_limit_;
  std::array<FairLine, kNumPriorities> lines_;  // by priority
  absl::flat_hash_map<uint64_t, Amount> held_;  // by client; of clients that have a job here
  Amount total_;
  int64_t num_queries_ = 0;
  uint64_t next_sequence_ = 0;
};

}  // namespace maxsim::batching
