#include "server/batching/scheduler.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "base/monotonic_clock.h"
#include "base/thread_name.h"
#include "server/batching/answer_threads.h"
#include "server/batching/dispatcher.h"

namespace maxsim::batching {
namespace {

// Returns after `time` of the steady clock, when notified, or spuriously.
void Wait(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, absl::Duration time) {
  constexpr absl::Duration kLongest = absl::Hours(1);  // so that no deadline overflows the clock
  condition.wait_for(lock, absl::ToChronoNanoseconds(std::min(time, kLongest)));
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

  // A lane's thread, or that of SubmitOrScore, where gRPC would catch what is thrown and go on with a lane less.
  void Score(Batch* batch) noexcept;
  void Answer(Batch* batch) noexcept { dispatcher_.AnswerScored(batch); }
  void ObserveBatch(const store::Collection& collection, const engine::BatchStats& stats);

  // Lets go of the mutex and wakes whom the dispatcher wants woken: a thread that were notified while the mutex is held
  // would sleep a second time.
  void UnlockAndWake(std::unique_lock<std::mutex>& lock);
  void Wake(const Dispatcher::Wakes& wakes);

  engine::Engine* const engine_;
  Metrics* const metrics_;

  mutable std::mutex mutex_;
  std::condition_variable work_cv_;    // lanes
  std::condition_variable reaper_cv_;  // the reaper
  std::condition_variable idle_cv_;    // Shutdown
  Dispatcher dispatcher_;              // guarded by mutex_, but for what it says of itself
  mutable absl::BitGen random_;        // guarded by mutex_

  std::mutex shutdown_mutex_;
  bool joined_ = false;                          // guarded by shutdown_mutex_
  std::optional<AnswerThreads> answer_threads_;  // one a lane; none once the lanes have ended
  std::vector<std::thread> lanes_;
  std::thread reaper_;
};

void Scheduler::Impl::UnlockAndWake(std::unique_lock<std::mutex>& lock) {
  const Dispatcher::Wakes wakes = dispatcher_.TakeWakes();
  lock.unlock();
  Wake(wakes);
}

void Scheduler::Impl::Wake(const Dispatcher::Wakes& wakes) {
  if (wakes.lanes) {
    work_cv_.notify_all();
  } else if (wakes.lane) {
    work_cv_.notify_one();
  }
  if (wakes.reaper) reaper_cv_.notify_one();
  if (wakes.idle) idle_cv_.notify_all();
}

absl::Status Scheduler::Impl::Submit(std::unique_ptr<engine::Job>& job) {
  const absl::Status health = engine_->Health();
  const absl::Time now = MonotonicNow();
  std::unique_lock lock(mutex_);
  absl::Status status = dispatcher_.Accept(job, health, now);
  UnlockAndWake(lock);
  return status;
}

absl::Status Scheduler::Impl::SubmitOrScore(std::unique_ptr<engine::Job>& job) {
  const absl::Status health = engine_->Health();
  const absl::Time now = MonotonicNow();
  Batch batch;
  std::unique_lock lock(mutex_);
  absl::Status status = dispatcher_.AcceptOrTake(job, health, now, &batch);
  UnlockAndWake(lock);
  if (batch.jobs.empty()) return status;
  Score(&batch);
  Answer(&batch);
  lock.lock();
  dispatcher_.CallerAnswered();
  Wake(dispatcher_.TakeWakes());  // with the mutex: Shutdown returns once it has seen this
  return status;
}

void Scheduler::Impl::LaneLoop() {
  NameThisThread("lane");
  std::unique_lock lock(mutex_);
  while (true) {
    Batch batch;
    absl::Duration time;
    switch (dispatcher_.NextForLane(MonotonicNow(), &batch, &time)) {
      case Dispatcher::LaneStep::kEnd:
        return UnlockAndWake(lock);
      case Dispatcher::LaneStep::kSleep:
        Wake(dispatcher_.TakeWakes());  // all that it looked at may have been dead
        work_cv_.wait(lock);
        dispatcher_.LaneWoke();
        break;
      case Dispatcher::LaneStep::kHoldBack:
        Wake(dispatcher_.TakeWakes());
        Wait(work_cv_, lock, time);
        break;
      case Dispatcher::LaneStep::kScore: {
        UnlockAndWake(lock);
        Score(&batch);
        const bool hand_over = batch.hand_over;
        AnswerThreads::Work answer = [this, batch = std::move(batch)]() mutable { Answer(&batch); };
        if (!hand_over || !answer_threads_->TryStart(answer)) answer();
        answer = nullptr;  // what it held goes without the mutex
        lock.lock();
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
  batch->results = engine_->lane(batch->lane).Execute(jobs, &stats, &dispatcher_.stop_now());
  batch->end = MonotonicNow();
  batch->token_pairs = stats.token_pairs;

  ObserveBatch(*jobs.front()->collection, stats);
  batch->stopped = dispatcher_.stop_now().load(std::memory_order_relaxed);
  const auto is_unavailable = [](const auto& result) { return absl::IsUnavailable(result.status()); };
  const int64_t unavailable = std::count_if(batch->results.begin(), batch->results.end(), is_unavailable);
  const absl::Status health = unavailable == 0 ? absl::OkStatus() : engine_->Health();
  std::unique_lock lock(mutex_);
  dispatcher_.Finish(batch, unavailable, health);
  UnlockAndWake(lock);
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

void Scheduler::Impl::ReaperLoop() {
  NameThisThread("reaper");
  std::unique_lock lock(mutex_);
  while (true) {
    std::vector<DroppedJob> dropped;
    absl::Duration time;
    switch (dispatcher_.NextForReaper(MonotonicNow(), &dropped, &time)) {
      case Dispatcher::ReaperStep::kEnd:
        return;
      case Dispatcher::ReaperStep::kAnswer:
        UnlockAndWake(lock);
        dispatcher_.AnswerDropped(&dropped);
        lock.lock();
        break;
      case Dispatcher::ReaperStep::kSleep:
        Wake(dispatcher_.TakeWakes());
        Wait(reaper_cv_, lock, time);
        dispatcher_.ReaperWoke();
        break;
    }
  }
}

absl::Duration Scheduler::Impl::RetryDelay() const {
  const std::lock_guard lock(mutex_);
  return dispatcher_.RetryDelay(absl::Uniform(absl::IntervalClosed, random_, -1.0, 1.0));
}

SchedulerStats Scheduler::Impl::stats() const {
  const std::lock_guard lock(mutex_);
  return dispatcher_.stats();
}

int64_t Scheduler::Impl::Shutdown(absl::Time deadline) {
  const std::lock_guard shutdown_lock(shutdown_mutex_);
  if (joined_) return 0;
  std::unique_lock lock(mutex_);
  dispatcher_.BeginStop();
  UnlockAndWake(lock);
  lock.lock();
  while (!dispatcher_.idle()) {
    const absl::Duration left = deadline - MonotonicNow();
    if (left <= absl::ZeroDuration()) break;
    Wait(idle_cv_, lock, left);
  }
  dispatcher_.FailRest();
  UnlockAndWake(lock);
  for (std::thread& lane : lanes_) lane.join();
  answer_threads_.reset();
  reaper_.join();
  joined_ = true;
  lock.lock();
  idle_cv_.wait(lock, [this] { return dispatcher_.callers_done(); });
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
