// This is the scheduler's queue as a plain data structure: priorities, aging, fairness between clients, batch
// formation. It has no threads and no clock, so that its rules can be tested one by one.
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
  absl::Time expires = absl::InfiniteFuture();  // When it is dropped from the queue for having waited too long.
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
  // A generation that a running batch streams, or that was streamed a moment ago (Dispatcher::Stream).
  struct Streamed {
    const store::Generation* generation = nullptr;  // only compared
    absl::Time ends;                                // expected
  };
  // Jobs that stream one of these generations wait until `ends`, because two batches at once would copy every document
  // twice. A job that would expire before (deadline or max_queue_time) does not wait.
  std::vector<Streamed> streamed = {};
};

// Returns what a job counts in the queue: its work or, if it streams its collection, a share of it, because such jobs
// wait for one stream together.
uint64_t PriceOf(const engine::Job& job);

// Key of the payload that marks the RESOURCE_EXHAUSTED of a full queue (TakeQueueFullMark, in scheduler.h).
inline constexpr char kQueueFullMark[] = "maxsim/queue-full";
// Value of that payload if the job would wait or has waited for too long.
inline constexpr char kQueueTimeMark[] = "time";

// Holds a job that left the queue unscored, and why.
struct DroppedJob {
  QueuedJob queued;
  absl::Status reason;
};

// Returns OK, or why the job is not to be scored any more: DEADLINE_EXCEEDED (also when it was cancelled as well) or
// CANCELLED.
absl::Status CheckAlive(const engine::Job& job, absl::Time now);

// How much waits, or may wait, in each of the three resources that bound a queue.
struct QueueSize {
  int64_t jobs = 0;
  uint64_t work = 0;   // In token pairs.
  uint64_t bytes = 0;  // Job::bytes.
};

// The class is not thread-safe.
class JobQueue {
 public:
  // Drops jobs that have waited for `max_queue_time`; zero drops none.
  explicit JobQueue(absl::Duration starvation_limit, absl::Duration max_queue_time = absl::ZeroDuration())
      : starvation_limit_(starvation_limit), max_queue_time_(max_queue_time) {}

  bool empty() const { return total_.jobs == 0; }
  int64_t num_jobs() const { return total_.jobs; }
  uint64_t work() const { return total_.work; }    // In token pairs; the caller of Push keeps the sum below 2^64.
  uint64_t bytes() const { return total_.bytes; }  // Sums up Job::bytes; the caller of Push keeps it below 2^64.
  int64_t num_queries() const { return num_queries_; }
  // Counts the queries of waiting jobs that stream a generation.
  int64_t num_streaming_queries(const store::Generation* generation) const;
  // Counts the clients that have a job here.
  int64_t num_clients() const { return static_cast<int64_t>(queued_by_client_.size()); }

  void Push(std::unique_ptr<engine::Job> job, absl::Time now);

  // Returns the job that TakeBatch would begin with. The queue must not be empty.
  const QueuedJob& Head(absl::Time now) const;

  // Estimates the work that would be served before a job of this priority, client and work, if it came now and nothing
  // came after it: all work of higher priorities and, of its own priority, the lesser of all that waits and of what the
  // other clients are served in turn until this client's jobs are through. Saturates. Jobs of lower priority that have
  // reached the starvation limit are not counted.
  uint64_t WorkAhead(engine::Priority priority, uint64_t client, uint64_t work) const;

  // Makes room for a job that is within its client's fair share, by taking out the newest jobs, lowest priority first,
  // of the client that holds most; they are appended to `removed`. The fair share of a bound is the bound over the
  // number of clients that wait, the job's client included. Returns false, with nothing taken out, when the job is
  // beyond that share of a bound that it breaks. Also returns false, with what was taken out, when the client that
  // holds most has only jobs of higher priority. Takes O(clients that wait) for each job that it takes out.
  bool MakeRoom(const engine::Job& job, const QueueSize& bounds, std::vector<QueuedJob>* removed);

  // Returns true when the job keeps to the bounds together with what waits.
  bool Fits(const engine::Job& job, const QueueSize& bounds) const;

  // Takes the head and, in the order of service, the jobs on the same collection generation that fit beside it. Stops
  // at the first job on that generation that does not fit, so that a large job is not overtaken for ever. Jobs on other
  // generations stay as they are. The head is taken however large it is. Jobs that stream the collection are in batches
  // of their own, which are bounded by engine::kStreamedQueryTokens in place of max_work. The batch is empty if all
  // jobs wait for a streamed generation.
  //
  // Order of service: by priority, and within a priority by DeficitRoundRobin. Aging is the exception: once the next
  // job of a priority has waited for the starvation limit, it goes before the next jobs of other priorities that came
  // after it. Jobs on the way that must not be scored any more (CheckAlive, max_queue_time) are appended to `dropped`.
  // If there are only such jobs, the batch is empty.
  std::vector<QueuedJob> TakeBatch(absl::Time now, const BatchLimits& limits, std::vector<DroppedJob>* dropped);

  // Removes every job that was cancelled, whose deadline has passed or that has waited for max_queue_time, and appends
  // it to `dropped`. Returns the earliest time at which one of the remaining jobs expires.
  absl::Time DropExpiredAndCancelled(absl::Time now, std::vector<DroppedJob>* dropped);

  // Empties the queue.
  void DropAll(const absl::Status& reason, std::vector<DroppedJob>* dropped);

 private:
  static constexpr size_t kNumPriorities = 3;

  // Returns the index of the priority that is served next, where `next(priority)` is the next job of a priority, or
  // null when it has none. Returns kNumPriorities when there is no job.
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
