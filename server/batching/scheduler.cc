#include "server/batching/scheduler.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/random/random.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "base/thread_name.h"
#include "server/batching/answer_threads.h"
#include "server/batching/dispatcher.h"

namespace maxsim::batching {
namespace {

// Waits for a notification, at most for `time`. May return spuriously.
void Wait(ConditionVariable& condition, MutexLock& lock, absl::Duration time) {
  constexpr absl::Duration kLongest = absl::Hours(1);  // so that no deadline overflows the clock
  condition.WaitFor(lock, absl::ToChronoNanoseconds(std::min(time, kLongest)));
}

}  // namespace

bool TakeQueueFullMark(absl::Status& status) { return status.ErasePayload(kQueueFullMark); }

// The threads that carry out what a Dispatcher decides.
class Scheduler::Impl {
 public:
  Impl(engine::Engine* engine, Metrics* metrics, const SchedulerOptions& options)
      : engine_(engine),
        metrics_(metrics),
        dispatcher_(options, engine->num_lanes(), metrics),
        answer_threads_(std::in_place, engine->num_lanes()) {
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
  void LaneLoop();
  void ReaperLoop();

  // Scores a batch on a lane's thread, or on the thread that calls SubmitOrScore. It is noexcept, so that an exception
  // ends the process. On a thread of SubmitOrScore gRPC would catch the exception, and the lane would be lost.
  void Score(Batch* batch) noexcept;
  void Answer(Batch* batch) noexcept { unlocked_dispatcher_.AnswerScored(batch); }
  void ObserveBatch(const store::Collection& collection, const engine::BatchStats& stats);

  // Releases the mutex and then wakes the threads that the dispatcher names. A thread that is woken while the mutex is
  // held would have to sleep again. The analysis is off because Clang cannot see that `lock` holds mutex_.
  void UnlockAndWake(MutexLock& lock) ABSL_UNLOCK_FUNCTION(mutex_) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void Wake(const Dispatcher::Wakeups& wakeups);

  engine::Engine* const engine_;
  Metrics* const metrics_;

  mutable Mutex mutex_;
  ConditionVariable lane_wakeup_;
  ConditionVariable reaper_wakeup_;
  ConditionVariable shutdown_wakeup_;
  Dispatcher dispatcher_ ABSL_GUARDED_BY(mutex_);
  const Dispatcher& unlocked_dispatcher_{dispatcher_};  // for stop_now, AnswerScored and AnswerDropped
  mutable absl::BitGen random_ ABSL_GUARDED_BY(mutex_);

  Mutex shutdown_mutex_;
  bool joined_ ABSL_GUARDED_BY(shutdown_mutex_) = false;
  std::optional<AnswerThreads> answer_threads_;  // one per lane; none once the lanes have ended
  std::vector<std::thread> lanes_;
  std::thread reaper_;
};

void Scheduler::Impl::UnlockAndWake(MutexLock& lock) {
  const Dispatcher::Wakeups wakeups = dispatcher_.TakeWakeups();
  lock.Unlock();
  Wake(wakeups);
}

void Scheduler::Impl::Wake(const Dispatcher::Wakeups& wakeups) {
  if (wakeups.lanes) {
    lane_wakeup_.NotifyAll();
  } else if (wakeups.lane) {
    lane_wakeup_.NotifyOne();
  }
  if (wakeups.reaper) reaper_wakeup_.NotifyOne();
  if (wakeups.idle) shutdown_wakeup_.NotifyAll();
}

absl::Status Scheduler::Impl::Submit(std::unique_ptr<engine::Job>& job) {
  const absl::Status health = engine_->Health();
  const absl::Time now = MonotonicNow();
  MutexLock lock(&mutex_);
  absl::Status status = dispatcher_.Submit(job, health, now);
  UnlockAndWake(lock);
  return status;
}

absl::Status Scheduler::Impl::SubmitOrScore(std::unique_ptr<engine::Job>& job) {
  const absl::Status health = engine_->Health();
  const absl::Time now = MonotonicNow();
  Batch batch;
  MutexLock lock(&mutex_);
  absl::Status status = dispatcher_.SubmitOrTakeBatch(job, health, now, &batch);
  UnlockAndWake(lock);
  if (batch.jobs.empty()) return status;
  Score(&batch);
  Answer(&batch);
  lock.Lock();
  dispatcher_.CallerDone();
  // Wakes the threads while the mutex is held. After it is released, Shutdown may return and the scheduler may be
  // destroyed.
  Wake(dispatcher_.TakeWakeups());
  return status;
}

void Scheduler::Impl::LaneLoop() {
  NameThisThread("lane");
  MutexLock lock(&mutex_);
  while (true) {
    Batch batch;
    absl::Duration time;
    switch (dispatcher_.NextLaneAction(MonotonicNow(), &batch, &time)) {
      case Dispatcher::LaneAction::kEnd:
        return UnlockAndWake(lock);
      case Dispatcher::LaneAction::kSleep:
        Wake(dispatcher_.TakeWakeups());  // NextLaneAction may have dropped jobs, so the reaper may have work.
        lane_wakeup_.Wait(lock);
        dispatcher_.LaneWokeUp();
        break;
      case Dispatcher::LaneAction::kDelayBatch:
        Wake(dispatcher_.TakeWakeups());
        Wait(lane_wakeup_, lock, time);
        break;
      case Dispatcher::LaneAction::kScore: {
        UnlockAndWake(lock);
        Score(&batch);
        const bool hand_off = batch.hand_off;
        AnswerThreads::Work answer = [this, batch = std::move(batch)]() mutable { Answer(&batch); };
        if (!hand_off || !answer_threads_->TryStart(answer)) answer();
        answer = nullptr;  // Frees the memory of the batch before it takes the mutex again.
        lock.Lock();
        break;
      }
    }
  }
}

void Scheduler::Impl::Score(Batch* batch) noexcept {
  std::vector<engine::Job*> jobs;
  jobs.reserve(batch->jobs.size());
  for (const QueuedJob& queued : batch->jobs) jobs.push_back(queued.job.get());
  batch->start = MonotonicNow();
  engine::BatchStats stats;
  batch->results = engine_->lane(batch->lane).Execute(jobs, &stats, &unlocked_dispatcher_.stop_now());
  batch->end = MonotonicNow();
  // The candidates that a scan looked at count as work of the jobs, too.
  batch->token_pairs = stats.token_pairs + stats.refinements.token_pairs;

  ObserveBatch(*jobs.front()->collection, stats);
  batch->stopped = unlocked_dispatcher_.stop_now().load(std::memory_order_relaxed);
  const auto is_unavailable = [](const auto& result) { return absl::IsUnavailable(result.status()); };
  const int64_t unavailable = std::count_if(batch->results.begin(), batch->results.end(), is_unavailable);
  const absl::Status health = unavailable == 0 ? absl::OkStatus() : engine_->Health();
  MutexLock lock(&mutex_);
  dispatcher_.Finish(batch, unavailable, health);
  UnlockAndWake(lock);
}

void Scheduler::Impl::ObserveBatch(const store::Collection& collection, const engine::BatchStats& stats) {
  if (stats.num_queries > 0) {
    const uint64_t row_bytes = static_cast<uint64_t>(RowBytes(collection.storage(), collection.dim()));
    metrics_->ObserveBatch(stats.num_queries, stats.token_pairs, stats.document_tokens,
                           stats.document_tokens * row_bytes, stats.timings.copy_seconds, stats.timings.kernel_seconds);
  }
  const engine::BatchStats::Refinements& refined = stats.refinements;
  if (refined.token_pairs > 0) {
    metrics_->scans().Observe({.scans = refined.scans,
                               .token_pairs = refined.token_pairs,
                               .documents = refined.documents,
                               .proofs = refined.proofs,
                               .scan_seconds = refined.scan_seconds,
                               .refine_seconds = refined.refine_seconds});
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

void Scheduler::Impl::ReaperLoop() {
  NameThisThread("reaper");
  MutexLock lock(&mutex_);
  while (true) {
    std::vector<DroppedJob> dropped;
    absl::Duration time;
    switch (dispatcher_.NextReaperAction(MonotonicNow(), &dropped, &time)) {
      case Dispatcher::ReaperAction::kEnd:
        return;
      case Dispatcher::ReaperAction::kAnswer:
        UnlockAndWake(lock);
        unlocked_dispatcher_.AnswerDropped(&dropped);
        lock.Lock();
        break;
      case Dispatcher::ReaperAction::kSleep:
        Wake(dispatcher_.TakeWakeups());
        Wait(reaper_wakeup_, lock, time);
        dispatcher_.ReaperWokeUp();
        break;
    }
  }
}

absl::Duration Scheduler::Impl::RetryDelay() const {
  const MutexLock lock(&mutex_);
  return dispatcher_.RetryDelay(absl::Uniform(absl::IntervalClosed, random_, -1.0, 1.0));
}

SchedulerStats Scheduler::Impl::stats() const {
  const MutexLock lock(&mutex_);
  return dispatcher_.stats();
}

int64_t Scheduler::Impl::Shutdown(absl::Time deadline) {
  const MutexLock shutdown_lock(&shutdown_mutex_);
  if (joined_) return 0;
  MutexLock lock(&mutex_);
  dispatcher_.BeginStop();
  UnlockAndWake(lock);
  lock.Lock();
  while (!dispatcher_.idle()) {
    const absl::Duration left = deadline - MonotonicNow();
    if (left <= absl::ZeroDuration()) break;
    Wait(shutdown_wakeup_, lock, left);
  }
  dispatcher_.FailRemaining();
  UnlockAndWake(lock);
  for (std::thread& lane : lanes_) lane.join();
  answer_threads_.reset();
  reaper_.join();
  joined_ = true;
  lock.Lock();
  while (!dispatcher_.callers_done()) shutdown_wakeup_.Wait(lock);
  return dispatcher_.num_failed_by_stop();
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
