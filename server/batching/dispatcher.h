// The scheduler's decisions, without threads and without a clock: which jobs to admit, which jobs to score next and on
// which lane, which jobs leave the queue unscored, which threads to wake, and when all jobs are done. The scheduler
// drives it with threads and the steady clock; tests drive it with a virtual clock and an order of events of their own.
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
#include "server/batching/scheduler_options.h"
#include "server/batching/throughput_meter.h"
#include "server/engine/job.h"
#include "server/observability/metrics.h"

namespace maxsim::batching {

// Jobs on their way from the queue to their answers.
struct Batch {
  int lane = -1;
  std::vector<QueuedJob> jobs;  // on one generation of a collection; empty if there is nothing to score
  // The thread that scores the batch fills these.
  std::vector<absl::StatusOr<engine::JobResult>> results;  // [jobs]
  uint64_t token_pairs = 0;                                // that were scored
  absl::Time start;
  absl::Time end;
  bool stopped = false;  // stop_now() was set when the batch ended
  // Finish sets this if a thread other than the lane's should send the answers, because more jobs wait to be scored or
  // the batch has more than one job.
  bool hand_off = false;
};

// The class is not thread-safe: the caller must hold a lock around every call, except where a comment says otherwise.
// All times are of one clock that never goes back. No call blocks. Only AnswerScored and AnswerDropped call a job's
// `done`.
//
// The dispatcher decides for three kinds of threads, which belong to its owner:
//   lanes    There is one per lane. It asks NextLaneAction what to do, scores the batch that it gets, calls Finish
//            and answers the batch.
//   reaper   There is one. It asks NextReaperAction what to do, and answers jobs that left the queue unscored.
//   callers  Any number of threads call Submit, or SubmitOrTakeBatch, which may give the caller a batch to score,
//            Finish and answer.
// The owner wakes sleeping threads: it calls TakeWakeups after each call, releases the lock, and wakes the threads that
// TakeWakeups names.
class Dispatcher {
 public:
  // `metrics` must outlive the dispatcher.
  Dispatcher(const SchedulerOptions& options, int num_lanes, Metrics* metrics);

  // The threads that the owner must wake.
  struct Wakeups {
    bool lane = false;   // any one sleeping lane's thread
    bool lanes = false;  // every lane's thread
    bool reaper = false;
    bool idle = false;  // the thread that waits in Scheduler::Shutdown
  };
  Wakeups TakeWakeups() { return std::exchange(wakeups_, {}); }

  // Takes the job and puts it into the queue, or returns an error as Scheduler::Submit does. After an error the job
  // stays with the caller, untouched, and is counted as rejected. `health` is the result of Engine::Health.
  absl::Status Submit(std::unique_ptr<engine::Job>& job, const absl::Status& health, absl::Time now);

  // Like Submit, for a thread that may be held up for kShortJob. If the job is short, no job waits and none is being
  // scored, puts the job into `batch`: the caller must then score it, call Finish, answer it, and call CallerDone.
  // Otherwise queues the job and leaves `batch` without jobs.
  absl::Status SubmitOrTakeBatch(std::unique_ptr<engine::Job>& job, const absl::Status& health, absl::Time now,
                                 Batch* batch);
  void CallerDone();

  // The next step of a lane's thread, which calls NextLaneAction after each step.
  enum class LaneAction {
    kScore,       // Score `batch`, call Finish and answer it.
    kSleep,       // Sleep until woken, and call LaneWokeUp.
    kDelayBatch,  // Leave the queue alone until woken, for `*time` at most, so that a larger batch gathers.
    kEnd,         // End for good.
  };
  LaneAction NextLaneAction(absl::Time now, Batch* batch, absl::Duration* time);
  void LaneWokeUp() { --sleeping_lanes_; }

  // Records that a batch has been scored, and frees its lane. `num_unavailable` is the number of UNAVAILABLE results.
  // If there is one, `health` must be Engine::Health, read after the batch; otherwise OK.
  void Finish(Batch* batch, int64_t num_unavailable, const absl::Status& health);

  // The next step of the reaper, which calls NextReaperAction again after each step.
  enum class ReaperAction {
    kAnswer,  // Answer `dropped` with AnswerDropped.
    kSleep,   // Sleep until woken, for `*time` at most, and call ReaperWokeUp.
    kEnd,     // End for good.
  };
  ReaperAction NextReaperAction(absl::Time now, std::vector<DroppedJob>* dropped, absl::Duration* time);
  void ReaperWokeUp() { reaper_wake_time_ = absl::InfinitePast(); }

  // Returns Scheduler::RetryDelay. `jitter` is a random number from -1 to 1.
  absl::Duration RetryDelay(double jitter) const;

  SchedulerStats stats() const;
  // Returns the jobs that left the queue unscored and wait for the reaper.
  const std::vector<DroppedJob>& dropped() const { return dropped_; }

  // Refuses new jobs. The threads of lanes and reaper end when no job is left.
  void BeginStop();
  bool idle() const { return queue_.empty() && running_jobs_ == 0; }
  // Fails the waiting jobs with UNAVAILABLE, and sets stop_now() so that running batches end early. Does nothing if no
  // job waits or runs.
  void FailRemaining();
  // Returns false while a caller of SubmitOrTakeBatch scores or answers its job.
  bool callers_done() const { return !caller_scores_; }
  // Returns the number of jobs that failed because of FailRemaining.
  int64_t num_failed_by_stop() const { return failed_by_stop_; }
  // While true, the engine ends its batches early. May be read without the lock.
  const std::atomic<bool>& stop_now() const { return stop_now_; }

  // AnswerScored and AnswerDropped may be called without the lock, by several threads at once. They call each job's
  // `done` with its result or error. A job that expired or was cancelled before the end of its batch gets
  // DEADLINE_EXCEEDED or CANCELLED.
  void AnswerScored(Batch* batch) const;
  void AnswerDropped(std::vector<DroppedJob>* dropped) const;

 private:
  absl::Status CheckOpen(const engine::Job& job, const absl::Status& health, absl::Time now);
  absl::Status Admit(const engine::Job& job, absl::Time now);
  absl::Status CheckQueueTime(const engine::Job& job, absl::Time now) const;
  bool MayCallerScore(const engine::Job& job) const;
  absl::Duration BatchDelay(absl::Time now) const;
  uint64_t RemainingWork(absl::Time now) const;
  uint64_t MaxBatchWork() const;
  void TakeBatch(absl::Time now, Batch* batch);
  void Run(absl::Time now, Batch* batch);
  BatchLimits LimitsOfBatch(absl::Time now) const;
  absl::Duration PauseLeft(absl::Time now) const;
  bool AnyLaneStreams() const;
  void NoteStream(const Batch& batch, const store::Generation* generation);
  std::string ExceededBound(const engine::Job& job) const;
  void FailOnDeviceLoss(const absl::Status& status);
  void DropAll(const absl::Status& reason);
  void WakeReaperFor(absl::Time deadline, absl::Time now);
  void OnQueueChanged();
  void CountRejection(const absl::Status& status) const;

  const SchedulerOptions options_;
  Metrics* const metrics_;
  JobQueue queue_;
  ThroughputMeter throughput_;
  std::vector<DroppedJob> dropped_;                     // out of the queue, not yet answered
  absl::Time reaper_wake_time_ = absl::InfinitePast();  // when the reaper wakes up without a notification
  absl::Status device_lost_;                            // not OK once the device is lost
  int64_t running_jobs_ = 0;
  // The work that a lane is scoring, and since when.
  struct LaneLoad {
    uint64_t work = 0;  // 0 while the lane is free
    absl::Time since;
    const store::Generation* streamed = nullptr;  // the generation that the batch streams to the GPU; or null
  };
  std::vector<LaneLoad> lane_loads_;
  // The last batch that streamed a generation (version) of a collection to the GPU. `generation` is only compared,
  // never read, because it may have been destroyed. Further jobs that stream this generation wait until `until`. In
  // this time the clients that were just answered can ask again and share the next stream.
  struct Stream {
    const store::Generation* generation = nullptr;
    absl::Duration took;
    absl::Time until;
  };
  std::vector<Stream> streams_;  // at most kMaxStreams
  std::vector<int> free_lanes_;  // a stack: the lane that was used last is taken first
  int sleeping_lanes_ = 0;       // lanes' threads, with nothing to do
  int running_lanes_;            // lanes' threads that have not ended
  bool caller_scores_ = false;   // a caller of SubmitOrTakeBatch is scoring or answering a job
  bool stopping_ = false;
  int64_t failed_by_stop_ = 0;
  std::atomic<bool> stop_now_{false};
  Wakeups wakeups_;
};

}  // namespace maxsim::batching
