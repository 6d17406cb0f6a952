#include "server/batching/scheduler.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "kernels/monotonic_clock.h"
#include "kernels/thread_name.h"
#include "server/batching/answer_threads.h"
#include "server/batching/job_queue.h"
#include "server/batching/rate_meter.h"
#include "spdlog/spdlog.h"

namespace maxsim::batching {
namespace {

// A cancelled flag is set without a signal, so the queue is looked through this often while jobs wait in it. Looking at
// 16384 jobs (the default bound) takes well under a millisecond.
constexpr absl::Duration kSweepInterval = absl::Milliseconds(10);
// Two sweeps keep this distance, however many deadlines lie close together.
constexpr absl::Duration kMinSweepInterval = absl::Milliseconds(1);

constexpr absl::Duration kRateTimeConstant = absl::Seconds(2);
constexpr absl::Duration kMinRetryDelay = absl::Milliseconds(1);
constexpr absl::Duration kMaxRetryDelay = absl::Seconds(10);
constexpr absl::Duration kUnknownRetryDelay = absl::Milliseconds(50);

// Clients that are rejected together are told delays up to this share shorter or longer, so as not to come back
// together.
constexpr double kRetryJitter = 0.2;

// Returns after `time` of the steady clock, when notified, or spuriously.
void Wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, absl::Duration time) {
  constexpr absl::Duration kLongest = absl::Hours(1);  // so that no deadline overflows the clock
  condition.wait_for(lock, absl::ToChronoNanoseconds(std::min(time, kLongest)));
}

constexpr char kQueueFullMark[] = "maxsim/queue-full";

absl::Status QueueFull(const std::string& message) {
  absl::Status status = absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", message));
  status.SetPayload(kQueueFullMark, absl::Cord());
  return status;
}

// How long it takes; for people.
std::string Rounded(absl::Duration time) {
  return absl::FormatDuration(time < absl::Seconds(1) ? absl::Ceil(time, absl::Microseconds(100))
                                                      : absl::Ceil(time, absl::Milliseconds(100)));
}

absl::Status ShuttingDown() { return absl::UnavailableError("the server is shutting down"); }

}  // namespace

bool TakeQueueFullMark(absl::Status& status) { return status.ErasePayload(kQueueFullMark); }

class Scheduler::Impl {
 public:
  Impl(engine::Engine* engine, Metrics* metrics, const SchedulerOptions& options)
      : engine_(engine),
        metrics_(metrics),
        options_(options),
        queue_(options.starvation_limit),
        rate_(kRateTimeConstant),
        running_lanes_(engine->num_lanes()),
        answer_threads_(std::in_place, engine->num_lanes()) {
    for (int idx = 0; idx < engine->num_lanes(); ++idx) free_lanes_.push_back(&engine->lane(idx));
    for (int idx = 0; idx < engine->num_lanes(); ++idx) lanes_.emplace_back([this] { LaneLoop(); });
    reaper_ = std::thread([this] { ReaperLoop(); });
  }

  ~Impl() { Shutdown(absl::InfiniteFuture()); }

  absl::Status Submit(std::unique_ptr<engine::Job>& job);
  absl::Status SubmitOrScore(std::unique_ptr<engine::Job>& job);
  absl::Duration RetryDelay() const;
  SchedulerStats stats() const;
  int64_t Shutdown(absl::Time deadline);

 private:
  // A batch that has been scored.
  struct ScoredBatch {
    std::vector<QueuedJob> jobs;
    std::vector<absl::StatusOr<engine::JobResult>> results;  // [jobs]
    absl::Time start;
    absl::Time end;
    bool more_waits = false;  // in the queue, when the lane was free again
  };

  // Lane threads.
  void LaneLoop();
  absl::Duration HoldBack(absl::Time now) const;

  // A lane's thread, or that of SubmitOrScore, where gRPC would catch what is thrown and go on with a lane less.
  ScoredBatch Score(engine::Lane* lane, std::vector<QueuedJob> batch) noexcept;
  void ObserveBatch(const store::Collection& collection, const engine::BatchStats& stats);

  // One of these, or one that answers.
  void Answer(ScoredBatch& batch) noexcept;

  // The reaper's thread.
  void ReaperLoop();

  // With mutex_ held.
  absl::Status Accept(std::unique_ptr<engine::Job>& job, const absl::Status& health, absl::Time now);
  absl::Status Admit(const engine::Job& job, absl::Time now);
  absl::Status CheckWait(const engine::Job& job, absl::Time now) const;
  bool MayScoreHere(const engine::Job& job) const;
  std::vector<QueuedJob> TakeBatch(absl::Time now);
  engine::Lane* TakeLane();
  std::string FullBound(const engine::Job& job) const;
  void LoseDevice(const absl::Status& status);
  void DropAll(const absl::Status& reason);
  void WakeReaperFor(absl::Time deadline, absl::Time now);
  void QueueChanged();

  // Any thread. How an error counts; a result needs none.
  void CountRejection(const absl::Status& status);

  engine::Engine* const engine_;
  Metrics* const metrics_;
  const SchedulerOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable work_cv_;    // lanes: something to do, or nothing ever again
  std::condition_variable reaper_cv_;  // the reaper: a job to drop, or a deadline before reaper_wake_
  std::condition_variable idle_cv_;    // Shutdown: nothing waits and nothing runs; no caller scores
  JobQueue queue_;
  std::vector<DroppedJob> dropped_;  // out of the queue, `done` not called yet
  RateMeter rate_;
  mutable absl::BitGen random_;
  absl::Time reaper_wake_ = absl::InfinitePast();  // when the reaper looks next by itself
  absl::Status lost_;                              // not OK once the device is lost
  int64_t running_jobs_ = 0;
  std::vector<engine::Lane*> free_lanes_;  // the one that was used last is the next
  int waiting_threads_ = 0;                // the lanes', with nothing to do
  bool caller_scores_ = false;             // a thread in SubmitOrScore has a lane, or answers
  int running_lanes_;                      // threads that have not ended
  bool stopping_ = false;
  int64_t failed_by_shutdown_ = 0;
  std::atomic<bool> stop_now_{false};  // Shutdown's deadline has passed

  std::mutex shutdown_mutex_;
  bool joined_ = false;                          // guarded by shutdown_mutex_
  std::optional<AnswerThreads> answer_threads_;  // one a lane; none once the lanes have ended
  std::vector<std::thread> lanes_;
  std::thread reaper_;
};

void Scheduler::Impl::CountRejection(const absl::Status& status) {
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
    case absl::StatusCode::kResourceExhausted:  // the engine's has no mark
      return metrics_->CountRejection(status.GetPayload(kQueueFullMark).has_value() ? Rejection::kDisplaced
                                                                                    : Rejection::kInvalid);
    default:  // INTERNAL above all: a backend call that failed is no fault of the request
      return metrics_->CountRejection(Rejection::kDevice);
  }
}

void Scheduler::Impl::QueueChanged() {
  metrics_->SetQueue(queue_.num_jobs(), queue_.work(), queue_.bytes());
  metrics_->SetQueueClients(queue_.num_clients());
  metrics_->SetInFlight(running_jobs_);
  if (stopping_ && queue_.empty()) {
    work_cv_.notify_all();
    reaper_cv_.notify_all();
    if (running_jobs_ == 0) idle_cv_.notify_all();
  }
}

// Which bound the job would break.
std::string Scheduler::Impl::FullBound(const engine::Job& job) const {
  if (queue_.num_jobs() >= options_.max_queue_jobs) {
    return absl::StrCat(queue_.num_jobs(), " requests wait, of at most ", options_.max_queue_jobs,
                        " (batching.max_queue_jobs)");
  }
  if (queue_.work() > options_.max_queue_work || job.work > options_.max_queue_work - queue_.work()) {
    return absl::StrCat("requests of ", queue_.work(), " token pairs wait, of at most ", options_.max_queue_work,
                        " (batching.max_queue_work), and this one has ", job.work);
  }
  return absl::StrCat("requests of ", queue_.bytes(), " bytes wait, of at most ", options_.max_queue_bytes,
                      " (batching.max_queue_bytes), and this one has ", job.bytes);
}

absl::Status Scheduler::Impl::CheckWait(const engine::Job& job, absl::Time now) const {
  const double rate = rate_.PerSecond();
  if (rate <= 0) return absl::OkStatus();
  const uint64_t ahead = queue_.WorkAhead(job.priority, job.client, job.work);
  const absl::Duration wait = absl::Seconds(static_cast<double>(ahead) / rate);
  if (options_.max_queue_time > absl::ZeroDuration() && wait > options_.max_queue_time) {
    return QueueFull(absl::StrCat("this request would wait for about ", Rounded(wait), ", and at most ",
                                  absl::FormatDuration(options_.max_queue_time),
                                  " (batching.max_queue_time) are accepted"));
  }
  if (job.deadline != absl::InfiniteFuture() && wait >= job.deadline - now) {
    return QueueFull(absl::StrCat("this request would wait for about ", Rounded(wait), ", and its deadline is ",
                                  Rounded(job.deadline - now), " away"));
  }
  return absl::OkStatus();
}

// Counts what it refuses. An empty queue takes any job.
absl::Status Scheduler::Impl::Admit(const engine::Job& job, absl::Time now) {
  if (queue_.empty()) return absl::OkStatus();
  if (absl::Status status = CheckWait(job, now); !status.ok()) {
    metrics_->CountRejection(Rejection::kQueueTime);
    return status;
  }
  const Amount bounds = {options_.max_queue_jobs, options_.max_queue_work, options_.max_queue_bytes};
  if (queue_.Fits(job, bounds)) return absl::OkStatus();
  const std::string full = FullBound(job);
  std::vector<QueuedJob> displaced;
  const bool has_room = queue_.MakeRoom(job, bounds, &displaced);
  for (QueuedJob& queued : displaced) {
    dropped_.push_back({std::move(queued), QueueFull("other clients had less than their share of it")});
  }
  if (!displaced.empty()) {
    QueueChanged();
    reaper_cv_.notify_one();
  }
  if (has_room) return absl::OkStatus();
  metrics_->CountRejection(Rejection::kQueueFull);
  return QueueFull(full);
}

absl::Status Scheduler::Impl::Submit(std::unique_ptr<engine::Job>& job) {
  const absl::Status health = engine_->Health();
  const absl::Time now = MonotonicNow();
  {
    const std::lock_guard lock(mutex_);
    if (absl::Status status = Accept(job, health, now); !status.ok()) return status;
  }
  // The lane that wakes takes the mutex at once: notified while it was held, it would sleep a second time.
  work_cv_.notify_one();
  return absl::OkStatus();
}

bool Scheduler::Impl::MayScoreHere(const engine::Job& job) const {
  const bool is_idle = !caller_scores_ && running_jobs_ == 0 && queue_.empty();
  if (!is_idle || options_.max_batch_delay > absl::ZeroDuration() || !job.collection->is_resident()) return false;
  return static_cast<double>(job.work) <= rate_.PerSecond() * absl::ToDoubleSeconds(kShort);
}

absl::Status Scheduler::Impl::SubmitOrScore(std::unique_ptr<engine::Job>& job) {
  const absl::Status health = engine_->Health();
  const absl::Time now = MonotonicNow();
  std::unique_lock lock(mutex_);
  const bool score_here = MayScoreHere(*job);
  if (absl::Status status = Accept(job, health, now); !status.ok()) return status;
  std::vector<QueuedJob> batch;
  if (score_here) batch = TakeBatch(now);
  if (batch.empty()) {
    lock.unlock();
    if (!score_here) work_cv_.notify_one();
    return absl::OkStatus();
  }
  caller_scores_ = true;
  engine::Lane* const lane = TakeLane();
  lock.unlock();
  ScoredBatch scored = Score(lane, std::move(batch));
  if (scored.more_waits) work_cv_.notify_one();  // for a thread that found no free lane
  Answer(scored);
  lock.lock();
  caller_scores_ = false;
  if (stopping_) idle_cv_.notify_all();
  return absl::OkStatus();
}

absl::Status Scheduler::Impl::Accept(std::unique_ptr<engine::Job>& job, const absl::Status& health, absl::Time now) {
  if (stopping_) {
    metrics_->CountRejection(Rejection::kShutdown);
    return ShuttingDown();
  }
  if (!health.ok() && lost_.ok()) LoseDevice(health);
  if (!lost_.ok()) {
    metrics_->CountRejection(Rejection::kDevice);
    return lost_;
  }
  if (job->deadline <= now) {
    metrics_->CountRejection(Rejection::kDeadline);
    return absl::DeadlineExceededError("the deadline had passed when the request arrived");
  }
  if (absl::Status status = Admit(*job, now); !status.ok()) return status;
  const absl::Time deadline = job->deadline;
  queue_.Push(std::move(job), now);
  QueueChanged();
  // A thread that waits takes the job to a free lane at once; the reaper is for jobs that stay.
  if (waiting_threads_ == 0 || free_lanes_.empty() || options_.max_batch_delay > absl::ZeroDuration())
    WakeReaperFor(deadline, now);
  return absl::OkStatus();
}

void Scheduler::Impl::WakeReaperFor(absl::Time deadline, absl::Time now) {
  if (std::min(deadline, now + kSweepInterval) < reaper_wake_) reaper_cv_.notify_one();
}

void Scheduler::Impl::DropAll(const absl::Status& reason) {
  queue_.DropAll(reason, &dropped_);
  QueueChanged();
  reaper_cv_.notify_one();
}

void Scheduler::Impl::LoseDevice(const absl::Status& status) {
  if (!lost_.ok()) return;
  lost_ = absl::UnavailableError(absl::StrCat("the device is lost: ", status.message()));
  spdlog::error("requests_dropped queued_jobs={} running_jobs={} reason=\"{}\"", queue_.num_jobs(), running_jobs_,
                lost_.ToString());
  DropAll(lost_);
}

// How much longer a free lane leaves the queue alone, max_batch_delay at most; zero or less means not at all.
absl::Duration Scheduler::Impl::HoldBack(absl::Time now) const {
  if (options_.max_batch_delay <= absl::ZeroDuration() || stopping_) return absl::ZeroDuration();
  if (queue_.work() >= options_.max_batch_work || queue_.num_queries() >= options_.max_batch_queries) {
    return absl::ZeroDuration();
  }
  const QueuedJob& head = queue_.Head(now);
  return std::min(options_.max_batch_delay, (head.job->deadline - head.enqueued) / 2) - (now - head.enqueued);
}

// What is to be scored next, which counts as running from here on; nothing, where all that waited was dead.
std::vector<QueuedJob> Scheduler::Impl::TakeBatch(absl::Time now) {
  std::vector<QueuedJob> batch =
      queue_.TakeBatch(now, {options_.max_batch_work, options_.max_batch_queries}, &dropped_);
  if (!batch.empty() && running_jobs_ == 0) rate_.Begin(now);
  running_jobs_ += static_cast<int64_t>(batch.size());
  QueueChanged();
  if (!dropped_.empty()) reaper_cv_.notify_one();
  if (!queue_.empty()) WakeReaperFor(absl::InfiniteFuture(), now);
  return batch;
}

engine::Lane* Scheduler::Impl::TakeLane() {
  engine::Lane* const lane = free_lanes_.back();
  free_lanes_.pop_back();
  return lane;
}

void Scheduler::Impl::LaneLoop() {
  NameThisThread("lane");
  std::unique_lock lock(mutex_);
  while (true) {
    if (stopping_ && queue_.empty()) break;
    if (queue_.empty() || free_lanes_.empty()) {
      ++waiting_threads_;
      work_cv_.wait(lock);
      --waiting_threads_;
      continue;
    }
    const absl::Time now = MonotonicNow();
    if (const absl::Duration time = HoldBack(now); time > absl::ZeroDuration()) {
      Wait(work_cv_, lock, time);
      continue;
    }
    std::vector<QueuedJob> batch = TakeBatch(now);
    if (batch.empty()) continue;
    const bool more_waits = !queue_.empty();
    engine::Lane* const lane = TakeLane();
    lock.unlock();
    if (more_waits) work_cv_.notify_one();  // for another free lane
    ScoredBatch scored = Score(lane, std::move(batch));
    // What a full batch takes on the host is several times its kernels' time, and this thread is better used for the
    // next one. A job that is alone is answered without waking another thread first.
    const bool hand_over = scored.more_waits || scored.jobs.size() > 1;
    AnswerThreads::Work answer = [this, scored = std::move(scored)]() mutable { Answer(scored); };
    if (!hand_over || !answer_threads_->TryStart(answer)) answer();
    answer = nullptr;  // what it held goes without the mutex
    lock.lock();
  }
  --running_lanes_;
  reaper_cv_.notify_all();
}

Scheduler::Impl::ScoredBatch Scheduler::Impl::Score(engine::Lane* lane, std::vector<QueuedJob> batch) noexcept {
  std::vector<engine::Job*> jobs;
  jobs.reserve(batch.size());
  for (const QueuedJob& queued : batch) jobs.push_back(queued.job.get());
  ScoredBatch scored;
  scored.start = MonotonicNow();
  engine::BatchStats stats;
  scored.results = lane->Execute(jobs, &stats, &stop_now_);
  scored.end = MonotonicNow();
  scored.jobs = std::move(batch);

  ObserveBatch(*jobs.front()->collection, stats);
  const bool stopped = stop_now_.load(std::memory_order_relaxed);
  const auto is_unavailable = [](const auto& result) { return absl::IsUnavailable(result.status()); };
  const int64_t unavailable = std::count_if(scored.results.begin(), scored.results.end(), is_unavailable);
  const absl::Status health = unavailable == 0 ? absl::OkStatus() : engine_->Health();
  const std::lock_guard lock(mutex_);
  free_lanes_.push_back(lane);
  rate_.Add(stats.token_pairs, scored.end);
  running_jobs_ -= static_cast<int64_t>(jobs.size());
  // Where the device is well and no stop was asked for, a job that wants all of its candidates or none misses some
  // (Job::fail_on_unavailable).
  if (!health.ok()) {
    LoseDevice(health);
  } else if (stopped) {
    failed_by_shutdown_ += unavailable;
  }
  QueueChanged();
  scored.more_waits = !queue_.empty();
  return scored;
}

void Scheduler::Impl::ObserveBatch(const store::Collection& collection, const engine::BatchStats& stats) {
  if (stats.num_queries > 0) {
    const uint64_t row_bytes = static_cast<uint64_t>(collection.dim()) * SizeOf(collection.storage());
    metrics_->ObserveBatch(stats.num_queries, stats.token_pairs, stats.document_tokens,
                           stats.document_tokens * row_bytes, stats.timings.copy_seconds, stats.timings.kernel_seconds);
  }
  for (const engine::BatchStats::Device& device : stats.devices) {
    metrics_->ObserveDevice(engine_->devices().number(device.device), {.token_pairs = device.token_pairs,
                                                                       .copy_seconds = device.timings.copy_seconds,
                                                                       .kernel_seconds = device.timings.kernel_seconds,
                                                                       .streamed_bytes = device.timings.streamed_bytes,
                                                                       .cache_hits = device.timings.cache_hits,
                                                                       .cache_misses = device.timings.cache_misses});
  }
}

void Scheduler::Impl::Answer(ScoredBatch& batch) noexcept {
  for (size_t idx = 0; idx < batch.jobs.size(); ++idx) {
    QueuedJob& queued = batch.jobs[idx];
    absl::StatusOr<engine::JobResult> result = std::move(batch.results[idx]);
    const absl::Duration queue_time = batch.start - queued.enqueued;
    metrics_->ObserveQueueTime(queue_time);
    if (result.ok()) {
      result->queue_time = queue_time;
      if (const absl::Status alive = CheckAlive(*queued.job, batch.end); !alive.ok()) {
        result =
            absl::Status(alive.code(), absl::IsCancelled(alive) ? "the request was cancelled while it was scored"
                                                                : "the deadline passed while the request was scored");
      }
    }
    if (!result.ok()) CountRejection(result.status());
    queued.job->done(std::move(result));
    queued.job.reset();
  }
}

void Scheduler::Impl::ReaperLoop() {
  NameThisThread("reaper");
  std::unique_lock lock(mutex_);
  while (true) {
    const absl::Time now = MonotonicNow();
    const size_t num_dropped = dropped_.size();
    const absl::Time next_deadline = queue_.DropDead(now, &dropped_);
    if (dropped_.size() != num_dropped) QueueChanged();
    if (!dropped_.empty()) {
      std::vector<DroppedJob> dropped = std::exchange(dropped_, {});
      reaper_wake_ = absl::InfinitePast();  // looks again before it sleeps
      lock.unlock();
      for (DroppedJob& one : dropped) {
        CountRejection(one.reason);
        one.queued.job->done(one.reason);
      }
      dropped.clear();
      lock.lock();
      continue;
    }
    if (stopping_ && queue_.empty() && running_lanes_ == 0) return;
    const absl::Duration time =
        queue_.empty() ? absl::InfiniteDuration() : std::clamp(next_deadline - now, kMinSweepInterval, kSweepInterval);
    reaper_wake_ = now + time;
    Wait(reaper_cv_, lock, time);
    reaper_wake_ = absl::InfinitePast();
  }
}

absl::Duration Scheduler::Impl::RetryDelay() const {
  const std::lock_guard lock(mutex_);
  const double rate = rate_.PerSecond();
  const absl::Duration delay =
      rate <= 0 ? kUnknownRetryDelay : absl::Seconds(static_cast<double>(queue_.work()) / rate);
  // Clamped to where the jitter stays within the bounds: clients that meet a bound are spread too.
  return std::clamp(delay, kMinRetryDelay / (1 - kRetryJitter), kMaxRetryDelay / (1 + kRetryJitter)) *
         absl::Uniform(absl::IntervalClosed, random_, 1 - kRetryJitter, 1 + kRetryJitter);
}

SchedulerStats Scheduler::Impl::stats() const {
  const std::lock_guard lock(mutex_);
  return {queue_.num_jobs(), queue_.num_clients(), queue_.work(), queue_.bytes(), running_jobs_};
}

int64_t Scheduler::Impl::Shutdown(absl::Time deadline) {
  const std::lock_guard shutdown_lock(shutdown_mutex_);
  if (joined_) return 0;
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    work_cv_.notify_all();
    reaper_cv_.notify_all();
    const auto idle = [this] { return queue_.empty() && running_jobs_ == 0; };
    while (!idle()) {
      const absl::Duration left = deadline - MonotonicNow();
      if (left <= absl::ZeroDuration()) break;
      Wait(idle_cv_, lock, left);
    }
    if (!idle()) {
      stop_now_.store(true, std::memory_order_relaxed);
      failed_by_shutdown_ += queue_.num_jobs();
      DropAll(ShuttingDown());
    }
  }
  for (std::thread& lane : lanes_) lane.join();
  answer_threads_.reset();
  reaper_.join();
  joined_ = true;
  std::unique_lock lock(mutex_);
  idle_cv_.wait(lock, [this] { return !caller_scores_; });
  return failed_by_shutdown_;
}

Scheduler::Scheduler(engine::Engine* engine, Metrics* metrics, SchedulerOptions options)
    : impl_(std::make_unique<Impl>(engine, metrics, options)) {}
Scheduler::~Scheduler() = default;
absl::Status Scheduler::Submit(std::unique_ptr<engine::Job>& job) { return impl_->Submit(job); }
absl::Status Scheduler::SubmitOrScore(std::unique_ptr<engine::Job>& job) { return impl_->SubmitOrScore(job); }
absl::Duration Scheduler::RetryDelay() const { return impl_->RetryDelay(); }
SchedulerStats Scheduler::stats() const { return impl_->stats(); }
int64_t Scheduler::Shutdown(absl::Time deadline) { return impl_->Shutdown(deadline); }

}  // namespace maxsim::batching
