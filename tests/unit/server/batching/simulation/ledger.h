// Keeps a record of every job of a simulation, independently of the dispatcher. Checks the dispatcher's promises
// against these records.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/batching/dispatcher.h"
#include "tests/unit/server/batching/simulation/fairness_check.h"

namespace maxsim::batching {

// The record of one job, from its arrival to its end.
struct JobRecord {
  enum class State { kOffered, kRefused, kWaiting, kDropped, kRunning, kAnswered };

  State state = State::kOffered;
  uint64_t number = 0;
  uint64_t client = 0;
  size_t line = 0;  // number of the job's priority
  const void* collection = nullptr;
  uint64_t work = 0;
  uint64_t bytes = 0;
  int64_t queries = 0;
  absl::Time deadline;
  absl::Time enqueued;
  absl::Time dead_at = absl::InfiniteFuture();  // cancelled or expired, whichever comes first
  absl::Time expires = absl::InfiniteFuture();  // when it has waited for max_queue_time
  std::shared_ptr<std::atomic<bool>> cancelled;
  absl::Status drop_reason;      // while kDropped: why
  absl::Time dropped_at;         // while kDropped: when
  absl::Status expected;         // while kRunning: the status that scoring gave
  absl::Time scored_end;         // while kRunning: when its batch was scored
  bool dead_before_end = false;  // it was cancelled or had expired by scored_end
};

// Keeps a record of every job and checks the dispatcher's promises. Remembers the first broken promise. The caller must
// then end the run.
class Ledger {
 public:
  Ledger(const SchedulerOptions& options, int num_lanes, bool one_collection);

  const std::string& broken() const { return broken_; }
  void Break(const std::string& what) {
    if (broken_.empty()) broken_ = what;
  }

  JobRecord& Add();
  JobRecord& of(const engine::Job* job) { return records_[static_cast<size_t>(by_job_.at(job))]; }
  JobRecord& record(uint64_t number) { return records_[static_cast<size_t>(number)]; }
  void Own(const engine::Job* job, uint64_t number) { by_job_[job] = number; }

  // Call this before `record` is offered to the dispatcher. Jobs that the dispatcher drops from then on make room for
  // this job.
  void Offered(JobRecord* record) { newcomer_ = record; }
  // Notes that the dispatcher has accepted, or refused, the offered job.
  void Accepted(JobRecord& record, absl::Time now);
  void Refused(JobRecord& record, const absl::Status& status, absl::Time now, bool stopping, bool lost);
  // Records the jobs that have left the dispatcher's queue unscored and wait for the reaper (the thread that answers
  // them). Call this first after each call of the dispatcher. If the reaper has already taken the jobs, call ReaperTook
  // instead.
  void SeeDropped(const std::vector<DroppedJob>& dropped, absl::Time now);
  void ReaperTook(const std::vector<DroppedJob>& dropped, absl::Time now);
  // Compares the dispatcher's statistics with the ledger. Call it after each event.
  void Compare(const SchedulerStats& stats);
  // Notes that a thread has taken a batch at the time `now`.
  void Taken(const Batch& batch, absl::Time now);
  // Notes that a batch was scored, and which results its jobs got.
  void Scored(const Batch& batch);
  // Notes that a job's `done` was called.
  void Answered(uint64_t number, const absl::Status& status, absl::Time now);
  // Checks, at the end of the simulation, that every job was answered or refused.
  void Over(const Dispatcher& dispatcher, int64_t num_failed_by_stop);

  void Cancel(JobRecord& record, absl::Time now);
  void FailOnDeviceLoss() { device_lost_ = true; }
  void StopNow() { stop_now_ = true; }
  void CountFailedByStop(int64_t jobs) { failed_by_stop_ += jobs; }

  bool has_waiting() const { return total_.jobs > 0; }
  uint64_t num_waiting() const { return static_cast<uint64_t>(total_.jobs); }
  int64_t num_running() const { return running_; }
  // Returns a waiting job that the caller may cancel, or null if no job waits.
  JobRecord* AnyWaiting(uint64_t random);
  const std::array<int64_t, 17>& answers() const { return answers_; }
  const std::array<int64_t, 17>& refusals() const { return refusals_; }
  int64_t num_displaced() const { return displaced_; }
  int64_t num_expired() const { return expired_; }

 private:
  void LeftQueue(JobRecord& record);
  void Dropped(const DroppedJob& dropped, absl::Time now);
  void CheckDisplaced(const JobRecord& record);

  const SchedulerOptions options_;
  const int num_lanes_;
  std::deque<JobRecord> records_;  // the index of a job is its number, in order of arrival
  absl::flat_hash_map<const engine::Job*, uint64_t> by_job_;
  std::string broken_;

  // Numbers of the waiting jobs, by line and client.
  std::array<std::map<uint64_t, std::set<uint64_t>>, 3> waiting_;
  std::map<uint64_t, QueueSize> held_;  // size of the waiting jobs, by client
  QueueSize total_;
  int64_t queries_ = 0;
  int64_t running_ = 0;
  std::set<int> busy_lanes_;
  size_t num_dropped_seen_ = 0;  // number of dropped jobs that were noted and wait for the reaper
  JobRecord* newcomer_ = nullptr;

  FairnessCheck fairness_;
  StarvationCheck starvation_;
  std::array<bool, 3> dropped_from_{};  // the lines from which jobs were dropped since the last Compare
  bool device_lost_ = false;
  bool stop_now_ = false;
  int64_t failed_by_stop_ = 0;
  int64_t displaced_ = 0;
  int64_t expired_ = 0;  // had waited for max_queue_time
  std::array<int64_t, 17> answers_{};
  std::array<int64_t, 17> refusals_{};
};

}  // namespace maxsim::batching
