// What the scheduler decides, without its threads and without a clock: which job is admitted, what is scored next and
// on which lane, what leaves the queue unscored, who has to be woken for it, and when it is over. The scheduler drives
// it with threads and the steady clock; tests drive it with a virtual clock and an order of events of their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/batching/job_queue.h"
#include "server/batching/rate_meter.h"
#include "server/batching/scheduler_options.h"
#include "server/engine/job.h"
#include "server/observability/metrics.h"

namespace maxsim::batching {

// The payload of the RESOURCE_EXHAUSTED of a queue that is full (TakeQueueFullMark, in scheduler.h).
inline constexpr char kQueueFullMark[] = "maxsim/queue-full";

// Jobs on their way from the queue to their answers.
struct Batch {
  int lane = -1;
  std::vector<QueuedJob> jobs;  // on one generation of a collection; never empty
  // Filled by whoever scores it.
  std::vector<absl::StatusOr<engine::JobResult>> results;  // [jobs]
  uint64_t token_pairs = 0;                                // that were scored
  absl::Time start;
  absl::Time end;
  bool stopped = false;  // stop_now() was set when it ended
  // Filled by Finish.
  bool hand_over = false;  // another thread may better answer it: there is more to score, or much to answer
};

// Not thread-safe: the caller holds a lock around every call but those that say otherwise. All times are of one clock
// that does not go back. No call blocks, and none calls a job's `done` but AnswerScored and AnswerDropped.
//
// The threads, which are the caller's:
//   lanes    one a lane. NextForLane says what to do; what is to be scored comes back by Finish, and is answered.
//   reaper   one. NextForReaper says what to do.
//   callers  any number: Accept, or AcceptOrTake, which may give the caller a batch to score, Finish and answer.
// A thread that sleeps is woken by what TakeWakes returns: the caller takes it after each call, and wakes those threads
// after it has let go of the lock.
class Dispatcher {
 public:
  // `metrics` must outlive the dispatcher.
  Dispatcher(const SchedulerOptions& options, int num_lanes, Metrics* metrics);

  // Who is to be woken.
  struct Wakes {
    bool lane = false;   // one of the lanes' threads that sleep
    bool lanes = false;  // all of them
    bool reaper = false;
    bool idle = false;  // who waits in a shutdown
  };
  Wakes TakeWakes() { return std::exchange(wakes_, {}); }

  // Takes the job when this is OK; else the job stays with the caller, untouched, and is counted as rejected. `health`
  // is Engine::Health. The errors are those of Scheduler::Submit.
  absl::Status Accept(std::unique_ptr<engine::Job>& job, const absl::Status& health, absl::Time now);

  // Accept for a thread that may be held up for kShortJob. Where nothing waits and nothing is being scored, what is to
  // be scored at once is put into `batch`: the caller scores it, calls Finish, answers it, and calls CallerAnswered.
  // Else `batch` stays without jobs.
  absl::Status AcceptOrTake(std::unique_ptr<engine::Job>& job, const absl::Status& health, absl::Time now,
                            Batch* batch);
  void CallerAnswered();

  // What a lane's thread does next.
  enum class LaneStep {
    kScore,     // `batch`; then Finish, answer it, and ask again
    kSleep,     // until it is woken; then LaneWoke, and ask again
    kHoldBack,  // until it is woken, `*time` at most; then ask again
    kEnd,       // for good
  };
  LaneStep NextForLane(absl::Time now, Batch* batch, absl::Duration* time);
  void LaneWoke() { --sleeping_lanes_; }

  // A batch has been scored; its lane is free again. `num_unavailable` of its results are UNAVAILABLE, and `health` is
  // Engine::Health after that where there is one, else OK.
  void Finish(Batch* batch, int64_t num_unavailable, const absl::Status& health);

  // What the reaper does next.
  enum class ReaperStep {
    kAnswer,  // `dropped`, with AnswerDropped; then ask again
    kSleep,   // until it is woken, `*time` at most; then ReaperWoke, and ask again
    kEnd,     // for good
  };
  ReaperStep NextForReaper(absl::Time now, std::vector<DroppedJob>* dropped, absl::Duration* time);
  void ReaperWoke() { reaper_wake_ = absl::InfinitePast(); }

  // How long a rejected client should wait (Scheduler::RetryDelay). `jitter` is a random number from -1 to 1.
  absl::Duration RetryDelay(double jitter) const;

  SchedulerStats stats() const;
  // Jobs that are out of the queue unscored and wait for the reaper.
  const std::vector<DroppedJob>& dropped() const { return dropped_; }

  // Refuses new jobs from here on. Lanes and reaper end once nothing is left for them.
  void BeginStop();
  bool idle() const { return queue_.empty() && running_jobs_ == 0; }
  // Fails what waits with UNAVAILABLE and sets stop_now(), unless the dispatcher is idle.
  void FailRest();
  // No caller is scoring or answering.
  bool callers_done() const { return !caller_scores_; }
  // Jobs that were failed because of FailRest.
  int64_t num_failed_by_stop() const { return failed_by_stop_; }
  // The engine is to end its batches. May be read without the lock.
  const std::atomic<bool>& stop_now() const { return stop_now_; }

  // These may be called without the lock, by several threads at once. They call each job's `done` with its result, or
  // with why it has none: an error of scoring, or a deadline or cancellation that came before the batch's end.
  void AnswerScored(Batch* batch) const;
  void AnswerDropped(std::vector<DroppedJob>* dropped) const;

 private:
  absl::Status Admit(const engine::Job& job, absl::Time now);
  absl::Status CheckWait(const engine::Job& job, absl::Time now) const;
  bool MayScoreHere(const engine::Job& job) const;
  absl::Duration HoldBack(absl::Time now) const;
  void TakeBatch(absl::Time now, Batch* batch);
  std::string FullBound(const engine::Job& job) const;
  void LoseDevice(const absl::Status& status);
  void DropAll(const absl::Status& reason);
  void WakeReaperFor(absl::Time deadline, absl::Time now);
  void QueueChanged();
  void CountRejection(const absl::Status& status) const;

  const SchedulerOptions options_;
  Metrics* const metrics_;
  JobQueue queue_;
  RateMeter rate_;
  std::vector<DroppedJob> dropped_;                // out of the queue, not yet answered
  absl::Time reaper_wake_ = absl::InfinitePast();  // when the reaper looks next by itself
  absl::Status lost_;                              // not OK once the device is lost
  int64_t running_jobs_ = 0;
  std::vector<int> free_lanes_;  // the one that was used last is the next
  int sleeping_lanes_ = 0;       // lanes' threads, with nothing to do
  int running_lanes_;            // lanes' threads that have not ended
  bool caller_scores_ = false;   // a caller of AcceptOrTake has a lane, or answers
  bool stopping_ = false;
  int64_t failed_by_stop_ = 0;
  std::atomic<bool> stop_now_{false};
  Wakes wakes_;
};

}  // namespace maxsim::batching
