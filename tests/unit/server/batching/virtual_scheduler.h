// Runs a dispatcher in virtual time, so that results do not depend on the machine's speed. Simulated lanes (scoring
// threads) score a fixed amount of work per second, and a simulated reaper answers jobs that leave the queue unscored.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/batching/dispatcher.h"
#include "server/observability/metrics.h"
#include "tests/support/collection/empty_collection.h"

namespace maxsim::batching {

class VirtualScheduler {
 public:
  // The outcome of an accepted job.
  struct Answer {
    uint64_t client = 0;
    uint64_t work = 0;
    absl::Status status;
    absl::Duration in_queue;  // if the job was scored
    absl::Duration total;
  };

  explicit VirtualScheduler(const SchedulerOptions& options, double work_per_second = 1000, int num_lanes = 1)
      : dispatcher_(options, num_lanes, &metrics_),
        lane_rate_(work_per_second / num_lanes),
        lanes_(static_cast<size_t>(num_lanes)) {}

  // Submits a job. If it is accepted, its outcome appears in `answers`.
  absl::Status Submit(uint64_t client, uint64_t work, engine::Priority priority = engine::Priority::kNormal,
                      absl::Time deadline = absl::InfiniteFuture(), bool ignores_max_queue_time = false) {
    return Submit(client, work, priority, deadline, ignores_max_queue_time, collection_, nullptr);
  }

  // Submits a job over all of `collection` or, if `is_list`, over a list of its documents. If a batch's collection is
  // streamed to the GPU, the batch takes only as long as its largest job.
  absl::Status SubmitScan(uint64_t client, uint64_t work, std::shared_ptr<const store::Collection> collection,
                          bool is_list = false) {
    auto candidates = std::make_shared<engine::CandidateSet>();
    if (is_list) candidates->kind = engine::CandidateSet::Kind::kOrdinals;
    return Submit(client, work, engine::Priority::kNormal, absl::InfiniteFuture(), false, std::move(collection),
                  std::move(candidates));
  }

  // Advances the time in steps of a millisecond.
  void Run(absl::Duration time) {
    for (const absl::Time end = now_ + time; now_ < end; now_ += absl::Milliseconds(1)) Step();
  }

  // Runs three jobs, from which the dispatcher measures how fast lanes score. Then forgets their answers.
  void MeasureRate() {
    for (int idx = 0; idx < 3; ++idx) {
      Submit(0, 100).IgnoreError();
      Run(absl::Seconds(1));
    }
    answers_.clear();
  }

  absl::Time now() const { return now_; }
  const std::vector<Answer>& answers() const { return answers_; }
  SchedulerStats stats() const { return dispatcher_.stats(); }
  absl::Duration RetryDelay(double jitter) const { return dispatcher_.RetryDelay(jitter); }

  // Returns the line of a series in the metrics' text, or "" if there is none.
  std::string Series(const std::string& prefix) const {
    const std::string text = metrics_.Expose();
    const size_t begin = text.find("\n" + prefix);
    return begin == std::string::npos ? "" : text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
  }

 private:
  struct Lane {
    Batch batch;
    absl::Time ends = absl::InfiniteFuture();
    bool sleeps = false;
  };

  absl::Status Submit(uint64_t client, uint64_t work, engine::Priority priority, absl::Time deadline,
                      bool ignores_max_queue_time, std::shared_ptr<const store::Collection> collection,
                      std::shared_ptr<const engine::CandidateSet> candidates) {
    auto job = std::make_unique<engine::Job>();
    job->client = client;
    job->work = work;
    job->priority = priority;
    job->deadline = deadline;
    job->ignores_max_queue_time = ignores_max_queue_time;
    job->queries.resize(1);
    job->queries[0].candidates = std::move(candidates);
    job->collection = std::move(collection);
    job->done = [this, client, work, came = now_](absl::StatusOr<engine::JobResult> result) {
      answers_.push_back(
          {client, work, result.status(), result.ok() ? result->queue_time : absl::InfiniteDuration(), now_ - came});
    };
    return dispatcher_.Submit(job, absl::OkStatus(), now_);
  }

  void Step() {
    for (Lane& lane : lanes_) {
      if (lane.ends <= now_) End(lane);
      if (lane.ends == absl::InfiniteFuture()) Begin(lane);
    }
    Reap();
    dispatcher_.TakeWakeups();  // Ignores the wakeups, because each step polls every thread.
  }

  void Begin(Lane& lane) {
    if (std::exchange(lane.sleeps, false)) dispatcher_.LaneWokeUp();
    absl::Duration time;
    lane.batch = Batch();
    switch (dispatcher_.NextLaneAction(now_, &lane.batch, &time)) {
      case Dispatcher::LaneAction::kScore: {
        uint64_t work = 0, shared = 0;
        for (const QueuedJob& queued : lane.batch.jobs) {
          work += queued.job->work;
          shared = queued.streams ? std::max(shared, queued.job->work) : shared + queued.job->work;
        }
        lane.batch.start = now_;
        lane.batch.token_pairs = work;
        lane.ends = now_ + absl::Seconds(static_cast<double>(shared) / lane_rate_);
        break;
      }
      case Dispatcher::LaneAction::kSleep:
        lane.sleeps = true;
        break;
      default:
        break;
    }
  }

  void End(Lane& lane) {
    lane.batch.end = now_;
    for (size_t idx = 0; idx < lane.batch.jobs.size(); ++idx) lane.batch.results.emplace_back(engine::JobResult());
    lane.ends = absl::InfiniteFuture();
    dispatcher_.Finish(&lane.batch, 0, absl::OkStatus());
    dispatcher_.AnswerScored(&lane.batch);
  }

  void Reap() {
    std::vector<DroppedJob> dropped;
    absl::Duration time;
    dispatcher_.ReaperWokeUp();
    while (dispatcher_.NextReaperAction(now_, &dropped, &time) == Dispatcher::ReaperAction::kAnswer) {
      dispatcher_.AnswerDropped(&dropped);
    }
  }

  Metrics metrics_;
  std::shared_ptr<const store::Collection> collection_ = test::EmptyCollection();
  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  std::vector<Answer> answers_;
  Dispatcher dispatcher_;
  const double lane_rate_;
  std::vector<Lane> lanes_;
};

}  // namespace maxsim::batching
