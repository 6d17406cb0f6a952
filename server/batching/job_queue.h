// The scheduler's queue as a plain data structure: priorities, aging, fairness between clients, batch formation. It has
// no threads and no clock, so that its rules can be tested one by one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/deficit_round_robin.h"
#include "server/engine/job.h"

namespace maxsim::batching {

// A job that was accepted.
struct QueuedJob {
  std::unique_ptr<engine::Job> job;
  absl::Time enqueued;
  absl::Time expires = absl::InfiniteFuture();  // When it leaves the queue because it has waited too long.
  uint64_t sequence = 0;                        // Counts the accepted jobs in order of arrival.
  bool streams = false;                         // engine::StreamsWholeCollection
  uint64_t price = 0;                           // PriceOf(job)

  uint64_t client() const { return job->client; }
  uint64_t work() const { return price; }
  int num_queries() const { return static_cast<int>(job->queries.size()); }
};

struct BatchLimits {
  uint64_t max_work = 0;
  int max_queries = 0;
  // A generation (version) of a collection that a running batch streams to the GPU, or that was streamed a moment ago
  // (Dispatcher::Stream).
  struct Streamed {
    const store::Generation* generation = nullptr;  // only compared
    absl::Time ends;                                // expected
  };
  // Jobs that stream one of these generations wait until its time `ends`, because two batches at the same time would
  // copy every document twice. A job that would expire before `ends` (by its deadline or max_queue_time) does not wait.
  std::vector<Streamed> streamed = {};
};

// Returns the work (token pairs) that a job counts for in the queue. For a job that streams its collection to the GPU
// this is only a share of its work, because several such jobs share one stream.
uint64_t PriceOf(const engine::Job& job);

// Key of the status payload that marks the RESOURCE_EXHAUSTED of a full queue (scheduler.h).
inline constexpr char kQueueFullMark[] = "maxsim/queue-full";
// The mark's value if the job was refused or dropped for its waiting time.
inline constexpr char kQueueTimeMark[] = "time";

// A job that left the queue unscored, and the reason.
struct DroppedJob {
  QueuedJob queued;
  absl::Status reason;
};

// Returns OK if the job may still be scored, DEADLINE_EXCEEDED if its deadline has passed (even if it was also
// cancelled), or CANCELLED.
absl::Status CheckAlive(const engine::Job& job, absl::Time now);

// An amount of each resource that a queue limits: what it holds, or its limits.
struct QueueSize {
  int64_t jobs = 0;
  uint64_t work = 0;   // In token pairs.
  uint64_t bytes = 0;  // Job::bytes.
};

// The class is not thread-safe.
class JobQueue {
 public:
  // Drops jobs that have waited for `max_queue_time`. Zero means no such limit.
  explicit JobQueue(absl::Duration starvation_limit, absl::Duration max_queue_time = absl::ZeroDuration())
      : starvation_limit_(starvation_limit), max_queue_time_(max_queue_time) {}

  bool empty() const { return total_.jobs == 0; }
  int64_t num_jobs() const { return total_.jobs; }
  uint64_t work() const { return total_.work; }    // In token pairs; the caller of Push keeps the sum below 2^64.
  uint64_t bytes() const { return total_.bytes; }  // Sums up Job::bytes; the caller of Push keeps it below 2^64.
  int64_t num_queries() const { return num_queries_; }
  // Returns the number of queries in the waiting jobs that stream this generation.
  int64_t num_streaming_queries(const store::Generation* generation) const;
  // Returns the number of clients that have a job in the queue.
  int64_t num_clients() const { return static_cast<int64_t>(queued_by_client_.size()); }

  // If memory runs out, throws std::bad_alloc: the queue is unchanged, the job lost.
  void Push(std::unique_ptr<engine::Job> job, absl::Time now);

  // Returns the job as TakeBatch would return it if it had been pushed into an empty queue, but does not use the queue.
  // Allocates nothing.
  QueuedJob Stamp(std::unique_ptr<engine::Job> job, absl::Time now);

  // Returns the job that TakeBatch would begin with. The queue must not be empty.
  const QueuedJob& Head(absl::Time now) const;

  // Estimates the work (token pairs) that would be served before a job of this priority, client and work that arrived
  // now, if no further job arrived. This is all work of higher priorities, and work of the job's own priority. Of the
  // latter it counts at most the client's own waiting work and the turns that other clients get before the job.
  // Saturates. Does not count jobs of lower priority that have reached the starvation limit.
  uint64_t WorkAhead(engine::Priority priority, uint64_t client, uint64_t work) const;

  // Makes room for a job by removing others, and appends these to `removed`. Removes the newest jobs of the client that
  // holds most, lowest priority first.
  //
  // A client's fair share of a bound is the bound divided by the number of clients with waiting jobs, including the
  // job's client. If the job breaks a bound and is beyond its client's share of it, returns false without removing
  // anything. If the client that holds most has only jobs of higher priority left, returns false, possibly after
  // removing some jobs. The time for each removed job is linear in the number of clients.
  bool MakeRoom(const engine::Job& job, const QueueSize& bounds, std::vector<QueuedJob>* removed);

  // Returns true if the waiting jobs and this one together stay within the bounds.
  bool Fits(const engine::Job& job, const QueueSize& bounds) const;

  // Takes the next job (Head), whatever its size, and then further jobs on the same generation (version) of its
  // collection, in the order of service, while they fit within the limits. Stops at the first job on that generation
  // that does not fit, so that smaller jobs cannot overtake a large one for ever. Leaves jobs on other generations in
  // the queue. A batch never mixes jobs that stream the collection with jobs that do not; for a batch of streaming jobs
  // engine::kStreamedQueryTokens takes the place of max_work.
  //
  // Order of service: by priority, and within a priority by DeficitRoundRobin. The exception is aging: once the next
  // job of a priority has waited for the starvation limit, it goes before jobs of higher priority that arrived later.
  // If this call meets a job that must not be scored any more (CheckAlive, max_queue_time), it moves the job to
  // `dropped`. The batch is empty if each job is dropped or waits for a streamed generation.
  std::vector<QueuedJob> TakeBatch(absl::Time now, const BatchLimits& limits, std::vector<DroppedJob>* dropped);

  // Removes every job that was cancelled, whose deadline has passed or that has waited for max_queue_time, and appends
  // it to `dropped`. Returns the earliest time at which one of the remaining jobs expires (infinite if none does).
  absl::Time DropExpiredAndCancelled(absl::Time now, std::vector<DroppedJob>* dropped);

  // Moves all jobs to `dropped`, with this reason.
  void DropAll(const absl::Status& reason, std::vector<DroppedJob>* dropped);

 private:
  static constexpr size_t kNumPriorities = 3;

  // Returns the index of the priority to serve next, or kNumPriorities if there is no job. `next(priority)` must return
  // a priority's next job, or null if it has none.
  template <typename Next>
  size_t NextPriority(Next next, absl::Time now) const;
  void AccountRemoved(const QueuedJob& job);
  static bool WaitsForStream(const QueuedJob& queued, const BatchLimits& limits);
  // Returns OK, or the reason why the job must leave the queue unscored.
  absl::Status CheckMayWait(const QueuedJob& queued, absl::Time now) const;

  const absl::Duration starvation_limit_;
  const absl::Duration max_queue_time_;
  std::array<DeficitRoundRobin<QueuedJob>, kNumPriorities> by_priority_;
  std::unordered_map<uint64_t, QueueSize> queued_by_client_;                 // Holds clients that have a job here.
  std::unordered_map<const store::Generation*, int64_t> streaming_queries_;  // Holds generations that jobs stream.
  QueueSize total_;
  int64_t num_queries_ = 0;
  uint64_t next_sequence_ = 0;
};

}  // namespace maxsim::batching
