#include "server/batching/dispatcher.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "base/saturating.h"
#include "server/observability/log_event.h"
#include "spdlog/spdlog.h"

namespace maxsim::batching {
namespace {

// A client that cancels its job only sets a flag and wakes no thread. So while jobs wait, the reaper (the thread that
// removes such jobs) looks through the queue this often. Looking at 16384 jobs (the default bound) takes well under a
// millisecond.
constexpr absl::Duration kSweepInterval = absl::Milliseconds(10);
// The minimum time between two sweeps, however close together the deadlines are.
constexpr absl::Duration kMinSweepInterval = absl::Milliseconds(1);

// While several clients wait, a batch may take only this share of max_queue_time to score. Otherwise a batch of one
// client could use up all the time that another client's job may wait.
constexpr double kBatchShareOfQueueTime = 0.5;

constexpr absl::Duration kRateTimeConstant = absl::Seconds(2);
constexpr absl::Duration kMinRetryDelay = absl::Milliseconds(1);
constexpr absl::Duration kMaxRetryDelay = absl::Seconds(10);
constexpr absl::Duration kUnknownRetryDelay = absl::Milliseconds(50);

// Shortens or lengthens each retry delay by up to this share, so that clients that were rejected together do not
// retry together.
constexpr double kRetryJitter = 0.2;

absl::Status ShuttingDown() { return absl::UnavailableError("the server is shutting down"); }

}  // namespace

Dispatcher::Dispatcher(const SchedulerOptions& options, int num_lanes, Metrics* metrics)
    : options_(options),
      metrics_(metrics),
      queue_(options.starvation_limit, options.max_queue_time),
      throughput_(kRateTimeConstant),
      lane_loads_(static_cast<size_t>(num_lanes)),
      running_lanes_(num_lanes) {
  for (int lane = 0; lane < num_lanes; ++lane) free_lanes_.push_back(lane);
}

void Dispatcher::CountRejection(const absl::Status& status) const {
  switch (status.code()) {
    case absl::StatusCode::kDeadlineExceeded:
      return metrics_->CountRejection(Rejection::kDeadline);
    case absl::StatusCode::kCancelled:
      return metrics_->CountRejection(Rejection::kCancelled);
    case absl::StatusCode::kUnavailable:
      return metrics_->CountRejection(stop_now_.load(std::memory_order_relaxed) ? Rejection::kShutdown
                                                                                : Rejection::kDevice);
    case absl::StatusCode::kInvalidArgument:
      return metrics_->CountRejection(Rejection::kInvalid);
    case absl::StatusCode::kResourceExhausted: {
      const absl::optional<absl::Cord> mark = status.GetPayload(kQueueFullMark);
      if (!mark.has_value()) return metrics_->CountRejection(Rejection::kInvalid);  // returned by the engine
      return metrics_->CountRejection(*mark == kQueueTimeMark ? Rejection::kQueueTime : Rejection::kDisplaced);
    }
    default:  // mostly INTERNAL: a backend call failed, which is not the request's fault
      return metrics_->CountRejection(Rejection::kDevice);
  }
}

void Dispatcher::OnQueueChanged() {
  metrics_->SetQueue(queue_.num_jobs(), queue_.work(), queue_.bytes());
  metrics_->SetQueueClients(queue_.num_clients());
  metrics_->SetInFlight(running_jobs_);
  if (stopping_ && queue_.empty()) {
    wakeups_.lanes = true;
    wakeups_.reaper = true;
    if (running_jobs_ == 0) wakeups_.idle = true;
  }
}

// Decides whether a job may be scored at all, and counts the rejection if not.
absl::Status Dispatcher::CheckOpen(const engine::Job& job, const absl::Status& health, absl::Time now) {
  if (stopping_) {
    metrics_->CountRejection(Rejection::kShutdown);
    return ShuttingDown();
  }
  if (!health.ok() && device_lost_.ok()) FailOnDeviceLoss(health);
  if (!device_lost_.ok()) {
    metrics_->CountRejection(Rejection::kDevice);
    return device_lost_;
  }
  if (job.deadline <= now) {
    metrics_->CountRejection(Rejection::kDeadline);
    return absl::DeadlineExceededError("the deadline had passed when the request arrived");
  }
  return absl::OkStatus();
}

absl::Status Dispatcher::Submit(std::unique_ptr<engine::Job>& job, const absl::Status& health, absl::Time now) {
  if (absl::Status status = CheckOpen(*job, health, now); !status.ok()) return status;
  if (absl::Status status = Admit(*job, now); !status.ok()) return status;
  const absl::Time deadline = job->deadline;
  queue_.Push(std::move(job), now);
  OnQueueChanged();
  wakeups_.lane = true;
  // If a lane is free and its thread sleeps, that thread takes the job from the queue immediately. The reaper must know
  // the deadlines only of jobs that stay in the queue.
  if (sleeping_lanes_ == 0 || free_lanes_.empty() || options_.max_batch_delay > absl::ZeroDuration()) {
    WakeReaperFor(deadline, now);
  }
  return absl::OkStatus();
}

bool Dispatcher::MayCallerScore(const engine::Job& job) const {
  const bool is_idle = !caller_scores_ && running_jobs_ == 0 && queue_.empty();
  if (!is_idle || options_.max_batch_delay > absl::ZeroDuration() || !job.collection->is_resident()) return false;
  return static_cast<double>(job.work) <= throughput_.PerSecond() * absl::ToDoubleSeconds(kShortJob);
}

absl::Status Dispatcher::SubmitOrTakeBatch(std::unique_ptr<engine::Job>& job, const absl::Status& health,
                                           absl::Time now, Batch* batch) {
  if (!MayCallerScore(*job) || !CheckAlive(*job, now).ok()) return Submit(job, health, now);
  if (absl::Status status = CheckOpen(*job, health, now); !status.ok()) return status;
  // The queue is empty, and this thread scores the job now: skip the queue.
  batch->jobs.reserve(1);  // if memory runs out, nothing has changed
  batch->jobs.push_back(queue_.Stamp(std::move(job), now));
  Run(now, batch);
  caller_scores_ = true;
  return absl::OkStatus();
}

void Dispatcher::CallerDone() {
  caller_scores_ = false;
  if (stopping_) wakeups_.idle = true;
}

void Dispatcher::WakeReaperFor(absl::Time deadline, absl::Time now) {
  if (std::min(deadline, now + kSweepInterval) < reaper_wake_time_) wakeups_.reaper = true;
}

void Dispatcher::DropAll(const absl::Status& reason) {
  queue_.DropAll(reason, &dropped_);
  OnQueueChanged();
  wakeups_.reaper = true;
}

void Dispatcher::FailOnDeviceLoss(const absl::Status& status) {
  if (!device_lost_.ok()) return;
  device_lost_ = absl::UnavailableError(absl::StrCat("the device is lost: ", status.message()));
  log::Write(
      spdlog::level::err, "requests_dropped",
      {{"queued_jobs", queue_.num_jobs()}, {"running_jobs", running_jobs_}, {"reason", device_lost_.ToString()}});
  DropAll(device_lost_);
}

// Returns how much longer a free lane waits for more jobs before it takes a batch, at most max_batch_delay. If the
// result is zero or negative, the lane takes the batch now.
absl::Duration Dispatcher::BatchDelay(absl::Time now) const {
  if (options_.max_batch_delay <= absl::ZeroDuration() || stopping_) return absl::ZeroDuration();
  if (queue_.work() >= MaxBatchWork() || queue_.num_queries() >= options_.max_batch_queries) {
    return absl::ZeroDuration();
  }
  const QueuedJob& head = queue_.Head(now);
  const absl::Time expires = std::min(head.job->deadline, head.expires);
  return std::min(options_.max_batch_delay, (expires - head.enqueued) / 2) - (now - head.enqueued);
}

// Returns the maximum work (token pairs) of a batch. At the recent rate a batch must not run for longer than
// max_queue_time, because jobs that arrive during it could expire before a lane is free.
uint64_t Dispatcher::MaxBatchWork() const {
  const double rate = throughput_.PerSecond();
  if (options_.max_queue_time <= absl::ZeroDuration() || rate <= 0) return options_.max_batch_work;
  const double lane_rate = rate / static_cast<double>(lane_loads_.size());
  const double share = queue_.num_clients() > 1 ? kBatchShareOfQueueTime : 1;
  const double work = share * absl::ToDoubleSeconds(options_.max_queue_time) * lane_rate;
  return work < static_cast<double>(options_.max_batch_work) ? static_cast<uint64_t>(work) : options_.max_batch_work;
}

// Moves the jobs to score next into `batch`, and counts them as running. A lane must be free. Jobs that stream a
// collection to the GPU stay in the queue while another batch streams it, and during the pause after that batch
// (LimitsOfBatch). `batch` stays empty if all waiting jobs are such jobs, or have expired, or were cancelled.
void Dispatcher::TakeBatch(absl::Time now, Batch* batch) {
  batch->jobs = queue_.TakeBatch(now, LimitsOfBatch(now), &dropped_);
  Run(now, batch);
  if (!dropped_.empty()) wakeups_.reaper = true;
  if (!queue_.empty()) WakeReaperFor(absl::InfiniteFuture(), now);
}

// Gives the batch a lane, if it has jobs.
void Dispatcher::Run(absl::Time now, Batch* batch) {
  if (!batch->jobs.empty()) {
    if (running_jobs_ == 0) throughput_.Begin(now);
    batch->lane = free_lanes_.back();
    free_lanes_.pop_back();
    uint64_t work = 0;
    for (const QueuedJob& queued : batch->jobs) work = SaturatingAdd(work, queued.job->work);
    const QueuedJob& head = batch->jobs.front();
    lane_loads_[static_cast<size_t>(batch->lane)] = {
        .work = work, .since = now, .streamed = head.streams ? &head.job->collection->generation() : nullptr};
  }
  running_jobs_ += static_cast<int64_t>(batch->jobs.size());
  OnQueueChanged();
}

Dispatcher::LaneAction Dispatcher::NextLaneAction(absl::Time now, Batch* batch, absl::Duration* time) {
  while (true) {
    if (stopping_ && queue_.empty()) {
      --running_lanes_;
      wakeups_.reaper = true;
      return LaneAction::kEnd;
    }
    if (queue_.empty() || free_lanes_.empty()) {
      ++sleeping_lanes_;
      return LaneAction::kSleep;
    }
    *time = BatchDelay(now);
    if (*time > absl::ZeroDuration()) return LaneAction::kDelayBatch;
    const size_t num_dropped = dropped_.size();
    TakeBatch(now, batch);
    if (batch->jobs.empty()) {
      if (queue_.empty() || dropped_.size() > num_dropped) continue;
      // Each waiting job streams a collection (copies all of it to the GPU) that a lane is streaming now or streamed a
      // moment ago.
      *time = PauseLeft(now);
      if (*time > absl::ZeroDuration()) return LaneAction::kDelayBatch;
      if (!AnyLaneStreams()) continue;
      ++sleeping_lanes_;
      return LaneAction::kSleep;
    }
    if (!queue_.empty()) wakeups_.lane = true;  // Another lane may be free.
    return LaneAction::kScore;
  }
}

void Dispatcher::Finish(Batch* batch, int64_t num_unavailable, const absl::Status& health) {
  free_lanes_.push_back(batch->lane);
  LaneLoad& lane = lane_loads_[static_cast<size_t>(batch->lane)];
  if (lane.streamed != nullptr) NoteStream(*batch, lane.streamed);
  lane = {};
  throughput_.Add(batch->token_pairs, batch->end);
  running_jobs_ -= static_cast<int64_t>(batch->jobs.size());
  // UNAVAILABLE results have three causes: a lost device, a stop of the server, or a job with fail_on_unavailable, one
  // of whose candidates is on a device lost before. The last cause needs nothing here.
  if (!health.ok()) {
    FailOnDeviceLoss(health);
  } else if (batch->stopped) {
    failed_by_stop_ += num_unavailable;
  }
  OnQueueChanged();
  const bool more_waits = !queue_.empty();
  // A lane's thread may sleep because no lane was free. This lane is free now.
  if (more_waits && sleeping_lanes_ > 0) wakeups_.lane = true;
  // Sending the answers of a full batch takes several times as long as its kernels ran, so another thread sends them
  // and this one scores the next batch. A single answer, with no job waiting, is sent by this thread, because waking
  // another thread would take longer.
  batch->hand_off = more_waits || batch->jobs.size() > 1;
}

Dispatcher::ReaperAction Dispatcher::NextReaperAction(absl::Time now, std::vector<DroppedJob>* dropped,
                                                      absl::Duration* time) {
  const size_t num_dropped = dropped_.size();
  const absl::Time next_deadline = queue_.DropExpiredAndCancelled(now, &dropped_);
  if (dropped_.size() != num_dropped) OnQueueChanged();
  if (!dropped_.empty()) {
    *dropped = std::exchange(dropped_, {});
    reaper_wake_time_ = absl::InfinitePast();  // The reaper looks again before it sleeps.
    return ReaperAction::kAnswer;
  }
  if (stopping_ && queue_.empty() && running_lanes_ == 0) return ReaperAction::kEnd;
  *time =
      queue_.empty() ? absl::InfiniteDuration() : std::clamp(next_deadline - now, kMinSweepInterval, kSweepInterval);
  reaper_wake_time_ = now + *time;
  return ReaperAction::kSleep;
}

absl::Duration Dispatcher::RetryDelay(double jitter) const {
  const double rate = throughput_.PerSecond();
  const absl::Duration delay =
      rate <= 0 ? kUnknownRetryDelay : absl::Seconds(static_cast<double>(queue_.work()) / rate);
  // Clamp before the jitter, so that delays at a bound are spread, too.
  return std::clamp(delay, kMinRetryDelay / (1 - kRetryJitter), kMaxRetryDelay / (1 + kRetryJitter)) *
         (1 + kRetryJitter * jitter);
}

SchedulerStats Dispatcher::stats() const {
  return {queue_.num_jobs(), queue_.num_clients(), queue_.work(), queue_.bytes(), running_jobs_};
}

void Dispatcher::BeginStop() {
  stopping_ = true;
  wakeups_.lanes = true;
  wakeups_.reaper = true;
}

void Dispatcher::FailRemaining() {
  if (idle()) return;
  stop_now_.store(true, std::memory_order_relaxed);
  failed_by_stop_ += queue_.num_jobs();
  DropAll(ShuttingDown());
}

void Dispatcher::AnswerScored(Batch* batch) const {
  for (size_t idx = 0; idx < batch->jobs.size(); ++idx) {
    QueuedJob& queued = batch->jobs[idx];
    absl::StatusOr<engine::JobResult> result = std::move(batch->results[idx]);
    const absl::Duration queue_time = batch->start - queued.enqueued;
    metrics_->ObserveQueueTime(queue_time);
    if (result.ok()) {
      result->queue_time = queue_time;
      if (const absl::Status alive = CheckAlive(*queued.job, batch->end); !alive.ok()) {
        result =
            absl::Status(alive.code(), absl::IsCancelled(alive) ? "the client cancelled the call while it was scored"
                                                                : "the deadline passed while the request was scored");
      }
    }
    if (!result.ok()) CountRejection(result.status());
    queued.job->done(std::move(result));
    queued.job.reset();
  }
}

void Dispatcher::AnswerDropped(std::vector<DroppedJob>* dropped) const {
  for (DroppedJob& one : *dropped) {
    CountRejection(one.reason);
    one.queued.job->done(one.reason);
  }
  dropped->clear();
}

}  // namespace maxsim::batching
