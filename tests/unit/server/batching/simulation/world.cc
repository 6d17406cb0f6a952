#include "tests/unit/server/batching/simulation/world.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace maxsim::batching {

World::World(uint64_t seed, int64_t num_steps, const Collections& collections)
    : random_(seed),
      options_(WorldOptions::Draw(random_, num_steps)),
      collections_(collections),
      dispatcher_(options_.scheduler, options_.num_lanes, &metrics_),
      ledger_(options_.scheduler, options_.num_lanes, options_.one_collection),
      lanes_(static_cast<size_t>(options_.num_lanes)),
      answerers_(static_cast<size_t>(options_.num_lanes)) {
  for (Thread& lane : lanes_) lane.at = now_ + Latency();
  for (Thread& answerer : answerers_) answerer.state = State::kIdle;
  reaper_.at = now_ + Latency();
  next_arrival_ = now_ + Latency();
  next_cancel_ = now_ + Latency();
}

std::string World::Run(Tally* tally) {
  while (ledger_.broken().empty() && !Over()) {
    ++tally_.steps;
    if (tally_.steps == options_.lost_at_step) {
      lost_ = true;
      ledger_.FailOnDeviceLoss();
    }
    if (tally_.steps == options_.stop_at_step) stop_.at = now_;
    if (!Step()) ledger_.Break("nothing is left to happen, and it is not over: a thread was not woken");
    CheckProgress();
  }
  if (ledger_.broken().empty()) {
    ledger_.Over(dispatcher_, dispatcher_.num_failed_by_stop());
    CheckCounts();
  }
  tally->steps += tally_.steps;
  tally->jobs += tally_.jobs;
  for (size_t code = 0; code < tally->answers.size(); ++code) {
    tally->answers[code] += ledger_.answers()[code];
    tally->refusals[code] += ledger_.refusals()[code];
  }
  tally->displaced += ledger_.num_displaced();
  tally->expired += ledger_.num_expired();
  tally->by_callers += tally_.by_callers;
  tally->batches += tally_.batches;
  tally->digest = tally->digest * 31 + tally_.digest;
  if (ledger_.broken().empty()) return "";
  return absl::StrCat("step ", tally_.steps, ": ", ledger_.broken(), "\n  in a world of ", options_.ToString());
}

bool World::Step() {
  absl::Time* first = &next_arrival_;
  std::function<void()> happen = [this] { Arrive(); };
  const auto consider = [&](absl::Time* at, auto action) {
    if (*at >= *first) return;
    first = at;
    happen = action;
  };
  consider(&next_cancel_, [this] { CancelOne(); });
  for (Thread& lane : lanes_) consider(&lane.at, [this, &lane] { StepLane(lane); });
  for (Thread& answerer : answerers_) consider(&answerer.at, [this, &answerer] { StepAnswerer(answerer); });
  consider(&reaper_.at, [this] { StepReaper(); });
  consider(&caller_.at, [this] { StepCaller(); });
  consider(&stop_.at, [this] { StepStop(); });
  for (size_t idx = 0; idx < in_flight_.size(); ++idx) {
    consider(&in_flight_[idx].first, [this, idx] {
      const Wakeups wakeups = in_flight_[idx].second;
      in_flight_[idx] = in_flight_.back();
      in_flight_.pop_back();
      Wake(wakeups);
    });
  }
  if (*first == absl::InfiniteFuture()) return false;
  now_ = std::max(now_, *first);
  *first = absl::InfiniteFuture();
  happen();
  return true;
}

// Does a step of a lane's thread, as Scheduler::Impl::LaneLoop does.
void World::StepLane(Thread& lane) {
  Note(1);
  if (lane.state == State::kScoring) {
    EndScoring(lane);
    const auto answerer =
        std::find_if(answerers_.begin(), answerers_.end(), [](const Thread& one) { return one.state == State::kIdle; });
    if (lane.batch.hand_off && answerer != answerers_.end()) {
      answerer->batch = std::move(lane.batch);
      answerer->state = State::kAnswering;
      answerer->at = now_ + Latency();
      lane.state = State::kReady;
      lane.at = now_ + absl::Microseconds(1);
    } else {
      lane.state = State::kAnswering;
      lane.at = now_ + Latency();
    }
    return;
  }
  if (lane.state == State::kAnswering) dispatcher_.AnswerScored(&lane.batch);
  if (lane.state == State::kSleeping) dispatcher_.LaneWokeUp();
  lane.state = State::kReady;
  lane.notified = false;
  lane.batch = Batch();
  absl::Duration time;
  const Dispatcher::LaneAction step = dispatcher_.NextLaneAction(now_, &lane.batch, &time);
  ledger_.SeeDropped(dispatcher_.dropped(), now_);
  switch (step) {
    case Dispatcher::LaneAction::kEnd:
      lane.state = State::kEnded;
      break;
    case Dispatcher::LaneAction::kSleep:
      lane.state = State::kSleeping;
      if (options_.spurious_wakes && Chance(0.05)) lane.at = now_ + Exponential(absl::Milliseconds(20));
      break;
    case Dispatcher::LaneAction::kDelayBatch:
      if (time > options_.scheduler.max_batch_delay)
        ledger_.Break("a batch is held back for longer than max_batch_delay");
      lane.state = State::kHoldingBack;
      lane.at = now_ + time + Latency();
      break;
    case Dispatcher::LaneAction::kScore:
      BeginScoring(lane, now_);
      break;
  }
  AfterCall();
}

void World::StepAnswerer(Thread& answerer) {
  Note(2);
  dispatcher_.AnswerScored(&answerer.batch);
  answerer.batch = Batch();
  answerer.state = State::kIdle;
}

// Simulates one step of a caller that has taken a batch: Scheduler::Impl::SubmitOrScore after SubmitOrTakeBatch.
void World::StepCaller() {
  Note(3);
  if (caller_.state == State::kScoring) {
    EndScoring(caller_);
    caller_.state = State::kAnswering;
    caller_.at = now_ + Latency();
    return;
  }
  dispatcher_.AnswerScored(&caller_.batch);
  caller_.batch = Batch();
  caller_.state = State::kIdle;
  dispatcher_.CallerDone();
  AfterCall();
}

// Does a step of the reaper, as Scheduler::Impl::ReaperLoop does.
void World::StepReaper() {
  Note(4);
  if (reaper_.state == State::kAnswering) {
    dispatcher_.AnswerDropped(&reaper_.dropped);
  } else if (reaper_.state == State::kSleeping) {
    dispatcher_.ReaperWokeUp();
  }
  reaper_.notified = false;
  absl::Duration time;
  switch (dispatcher_.NextReaperAction(now_, &reaper_.dropped, &time)) {
    case Dispatcher::ReaperAction::kEnd:
      reaper_.state = State::kEnded;
      break;
    case Dispatcher::ReaperAction::kAnswer:
      ledger_.ReaperTook(reaper_.dropped, now_);
      reaper_.state = State::kAnswering;
      reaper_.at = now_ + Latency();
      break;
    case Dispatcher::ReaperAction::kSleep:
      reaper_.state = State::kSleeping;
      reaper_.at = now_ + time + Latency();
      break;
  }
  AfterCall();
}

// Does a step of the shutdown, as Scheduler::Impl::Shutdown does.
void World::StepStop() {
  Note(5);
  if (!stopping_) {
    stopping_ = true;
    stop_deadline_ = now_ + options_.stop_grace;
    dispatcher_.BeginStop();
    AfterCall();
  }
  if (rest_failed_) return;  // woken by the end of a caller's scoring, but the shutdown is over
  if (!dispatcher_.idle() && now_ < stop_deadline_) {
    stop_.at = stop_deadline_;
    return;
  }
  rest_failed_ = true;
  const bool fails = !dispatcher_.idle();
  if (fails) ledger_.StopNow();
  ledger_.CountFailedByStop(fails ? dispatcher_.stats().queued_jobs : 0);
  dispatcher_.FailRemaining();
  ledger_.SeeDropped(dispatcher_.dropped(), now_);
  AfterCall();
}

void World::Arrive() {
  Note(6);
  // A few jobs still arrive after the shutdown has begun.
  if (rest_failed_ || (stopping_ && Chance(0.2))) return;
  Offer(Chance(options_.caller_share));
  if (burst_ > 0) {
    --burst_;
    next_arrival_ = now_ + absl::Microseconds(1);
    return;
  }
  if (Chance(0.02)) burst_ = static_cast<int>(random_() % 40);
  const double per_second = options_.work_per_second * options_.num_lanes * options_.load;
  next_arrival_ = now_ + Exponential(absl::Seconds(static_cast<double>(options_.price) / per_second));
}

void World::CancelOne() {
  Note(7);
  if (JobRecord* const record = ledger_.AnyWaiting(random_())) ledger_.Cancel(*record, now_);
  const double per_second = options_.work_per_second * options_.num_lanes / static_cast<double>(options_.price);
  if (options_.cancel_share > 0 && !rest_failed_) {
    next_cancel_ = now_ + Exponential(absl::Seconds(1 / (per_second * options_.cancel_share)));
  }
}

std::unique_ptr<engine::Job> World::MakeJob() {
  JobRecord& record = ledger_.Add();
  auto job = std::make_unique<engine::Job>();
  record.client = job->client = random_() % options_.num_clients;
  const size_t collection = options_.one_collection ? 0 : record.client % collections_.size();
  job->collection = collections_[collection];
  record.collection = job->collection.get();
  record.line = options_.one_priority ? 1 : random_() % 3;
  job->priority = static_cast<engine::Priority>(record.line);
  record.work = job->work = Price();
  record.bytes = job->bytes = 1 + random_() % 2000;
  job->queries.resize(1 + (Chance(0.1) ? random_() % 4 : 0));
  record.queries = static_cast<int64_t>(job->queries.size());
  if (Chance(options_.deadline_share)) {
    job->deadline =
        now_ + Exponential(absl::Milliseconds(30)) - (Chance(0.02) ? absl::Seconds(1) : absl::ZeroDuration());
  }
  record.dead_at = record.deadline = job->deadline;
  record.cancelled = job->cancelled = std::make_shared<std::atomic<bool>>(false);
  job->done = [this, number = record.number](const absl::StatusOr<engine::JobResult>& result) {
    if (result.ok() && result->queue_time < absl::ZeroDuration()) ledger_.Break("a negative time in the queue");
    ledger_.Answered(number, result.status(), now_);
  };
  ledger_.Own(job.get(), record.number);
  ++tally_.jobs;
  return job;
}

// Submits a job like Scheduler::Impl::Submit or, if `by_caller`, like Scheduler::Impl::SubmitOrScore.
void World::Offer(bool by_caller) {
  std::unique_ptr<engine::Job> job = MakeJob();
  JobRecord& record = ledger_.of(job.get());
  // A thread reads the clock before it gets the scheduler's lock, so the time that it passes may be a little old.
  const absl::Time thread_now = Chance(0.5) ? now_ : now_ - absl::Microseconds(static_cast<int64_t>(random_() % 50));
  record.enqueued = thread_now;
  ledger_.Offered(&record);
  Batch batch;
  const absl::Status status = by_caller ? dispatcher_.SubmitOrTakeBatch(job, health(), thread_now, &batch)
                                        : dispatcher_.Submit(job, health(), thread_now);
  if (batch.jobs.empty()) ledger_.SeeDropped(dispatcher_.dropped(), now_);
  if (status.ok() != (job == nullptr)) ledger_.Break("a job that was refused is the caller's, and no other");
  if (status.ok()) {
    if (stopping_) ledger_.Break("a job was accepted after the shutdown had begun");
    ledger_.Accepted(record, thread_now);
    if (!batch.jobs.empty()) ledger_.SeeDropped(dispatcher_.dropped(), now_);
  } else {
    ledger_.Refused(record, status, thread_now, stopping_, lost_);
    const absl::Duration delay = dispatcher_.RetryDelay(2 * Uniform() - 1);
    if (delay < absl::Milliseconds(1) - absl::Nanoseconds(1) || delay > absl::Seconds(10) + absl::Nanoseconds(1)) {
      ledger_.Break(absl::StrCat("a retry delay of ", absl::FormatDuration(delay)));
    }
  }
  if (!batch.jobs.empty()) {
    if (caller_.state != State::kIdle) ledger_.Break("two callers are held up");
    caller_.batch = std::move(batch);
    ++tally_.by_callers;
    BeginScoring(caller_, thread_now);
  }
  AfterCall();
}

void World::BeginScoring(Thread& thread, absl::Time thread_now) {
  ledger_.Taken(thread.batch, thread_now);
  ++tally_.batches;
  thread.state = State::kScoring;
  thread.batch.start = std::max(now_, thread_now);
  uint64_t work = 0;
  for (const QueuedJob& queued : thread.batch.jobs) work += queued.job->work;
  double seconds = static_cast<double>(work) / options_.work_per_second * (0.5 + Uniform());
  if (Chance(options_.slow_share)) seconds = std::min(seconds * 100, 2.0);
  thread.at = now_ + absl::Microseconds(20) + absl::Seconds(seconds);
}

// Ends the scoring of a thread's batch like Lane::Execute and Scheduler::Impl::Score.
void World::EndScoring(Thread& thread) {
  Batch& batch = thread.batch;
  batch.end = now_;
  batch.stopped = dispatcher_.stop_now().load();
  const bool all_stop = batch.stopped && Chance(0.5);
  int64_t num_unavailable = 0;
  for (const QueuedJob& queued : batch.jobs) {
    absl::Status status = CheckAlive(*queued.job, batch.end);
    if (lost_ || all_stop) {
      status = absl::UnavailableError(lost_ ? "the device is lost" : "the server is shutting down");
    } else if (status.ok() && Chance(options_.fail_share)) {
      status = absl::InternalError("a call failed");
    } else if (!status.ok() && Chance(0.5)) {
      status = absl::OkStatus();  // the job was cancelled or expired after the lane had last checked it
    }
    num_unavailable += absl::IsUnavailable(status) ? 1 : 0;
    if (status.ok()) batch.token_pairs += queued.job->work;
    batch.results.emplace_back(status.ok() ? absl::StatusOr<engine::JobResult>(engine::JobResult()) : status);
  }
  ledger_.Scored(batch);
  dispatcher_.Finish(&batch, num_unavailable, num_unavailable == 0 ? absl::OkStatus() : health());
  ledger_.SeeDropped(dispatcher_.dropped(), now_);
  AfterCall();
}

// Compares the ledger with the dispatcher after each call. Then delivers the dispatcher's notifications, either at once
// or up to 20 microseconds later: real threads send them after they have released the lock.
void World::AfterCall() {
  ledger_.Compare(dispatcher_.stats());
  const Wakeups wakeups = dispatcher_.TakeWakeups();
  if (!wakeups.lane && !wakeups.lanes && !wakeups.reaper && !wakeups.idle) return;
  if (Chance(0.5)) return Wake(wakeups);
  in_flight_.emplace_back(now_ + absl::Microseconds(1 + static_cast<int64_t>(random_() % 20)), wakeups);
}

// Notifies threads like condition variables do: a thread that is not waiting misses the notification.
void World::Wake(const Wakeups& wakeups) {
  Note(8);
  std::vector<Thread*> waiting;
  for (Thread& lane : lanes_) {
    const bool waits = (lane.state == State::kSleeping || lane.state == State::kHoldingBack) && !lane.notified;
    if (waits) waiting.push_back(&lane);
  }
  if (!wakeups.lanes && wakeups.lane && waiting.size() > 1) waiting = {waiting[random_() % waiting.size()]};
  if (!wakeups.lanes && !wakeups.lane) waiting.clear();
  for (Thread* const lane : waiting) {
    lane->notified = true;
    lane->at = now_ + Latency();
  }
  if (wakeups.reaper && reaper_.state == State::kSleeping && !reaper_.notified) {
    reaper_.notified = true;
    reaper_.at = now_ + Latency();
  }
  if (wakeups.idle && stopping_ && !rest_failed_) stop_.at = std::min(stop_.at, now_ + Latency());
}

void World::Note(uint64_t event) {
  tally_.digest = (tally_.digest ^ event ^ static_cast<uint64_t>(absl::ToUnixNanos(now_))) * 0x100000001b3u;
}

}  // namespace maxsim::batching
