// What a simulation knows of every job from outside of the dispatcher, and the promises that it holds the dispatcher
// to.
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

// One job, whatever becomes of it.
struct JobRecord {
  enum class State { kOffered, kRefused, kWaiting, kDropped, kRunning, kAnswered };

  State state = State::kOffered;
  uint64_t number = 0;
  uint64_t client = 0;
  size_t line = 0;  // its priority as a number
  const void* collection = nullptr;
  uint64_t work = 0;
  uint64_t bytes = 0;
  int64_t queries = 0;
  absl::Time deadline;
  absl::Time enqueued;
  absl::Time dead_at = absl::InfiniteFuture();  // cancelled or expired, whichever comes first
  std::shared_ptr<std::atomic<bool>> cancelled;
  absl::Status drop_reason;      // in kDropped
  absl::Time dropped_at;         // in kDropped
  absl::Status expected;         // of an answer in kRunning: what scoring came to
  absl::Time scored_end;         // in kRunning, once it is scored
  bool dead_before_end = false;  // by scored_end it was cancelled or expired
};

// Every promise that is checked is a line in the code of ledger.cc, with the bound and where it comes from. The first
// one that is broken is kept; the run is to end then.
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

  // `record` is about to be offered: what is displaced is displaced for it.
  void Offered(JobRecord* record) { newcomer_ = record; }
  // After the call that took or refused a job.
  void Accepted(JobRecord& record, absl::Time now);
  void Refused(JobRecord& record, const absl::Status& status, absl::Time now, bool stopping, bool lost);
  // After each call of the dispatcher, first of all: what has left its queue unscored and waits for the reaper; and
  // what the reaper has taken.
  void SeeDropped(const std::vector<DroppedJob>& dropped, absl::Time now);
  void ReaperTook(const std::vector<DroppedJob>& dropped, absl::Time now);
  // Checks, after each event, that what the dispatcher says of itself is what has happened.
  void Compare(const SchedulerStats& stats);
  // A batch was taken by a thread to which it was `now`.
  void Taken(const Batch& batch, absl::Time now);
  // A batch was scored, with what came of its jobs.
  void Scored(const Batch& batch);
  // The `done` of a job was called.
  void Answered(uint64_t number, const absl::Status& status, absl::Time now);
  // All is over.
  void Over(const Dispatcher& dispatcher, int64_t num_failed_by_stop);

  void Cancel(JobRecord& record, absl::Time now);
  void FailOnDeviceLoss() { device_lost_ = true; }
  void StopNow() { stop_now_ = true; }
  void CountFailedByStop(int64_t jobs) { failed_by_stop_ += jobs; }

  bool has_waiting() const { return total_.jobs > 0; }
  uint64_t num_waiting() const { return static_cast<uint64_t>(total_.jobs); }
  int64_t num_running() const { return running_; }
  // One that waits, for a cancellation; null without one.
  JobRecord* AnyWaiting(uint64_t random);
  const std::array<int64_t, 17>& answers() const { return answers_; }
  const std::array<int64_t, 17>& refusals() const { return refusals_; }
  int64_t num_displaced() const { return displaced_; }

 private:
  void LeftQueue(JobRecord& record);
  void Dropped(const DroppedJob& dropped, absl::Time now);
  void CheckDisplaced(const JobRecord& record);

  const SchedulerOptions options_;
  const int num_lanes_;
  std::deque<JobRecord> records_;  // by number, which is the order of arrival
  absl::flat_hash_map<const engine::Job*, uint64_t> by_job_;
  std::string broken_;

  // What waits, by priority and client.
  std::array<std::map<uint64_t, std::set<uint64_t>>, 3> waiting_;
  std::map<uint64_t, QueueSize> held_;  // by client
  QueueSize total_;
  int64_t queries_ = 0;
  int64_t running_ = 0;
  std::set<int> busy_lanes_;
  size_t num_dropped_seen_ = 0;  // of those that wait for the reaper
  JobRecord* newcomer_ = nullptr;

  FairnessCheck fairness_;
  StarvationCheck starvation_;
  std::array<bool, 3> dropped_from_{};  // lines, in the call that is being looked at
  bool device_lost_ = false;
  bool stop_now_ = false;
  int64_t failed_by_stop_ = 0;
  int64_t displaced_ = 0;
  std::array<int64_t, 17> answers_{};
  std::array<int64_t, 17> refusals_{};
};

}  // namespace maxsim::batching
