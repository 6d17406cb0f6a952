#include "tests/unit/server/batching/simulation/ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace maxsim::batching {
namespace {

using State = JobRecord::State;

// A cancelled or expired job leaves the queue "within about 10 ms also while every lane is busy" (Scheduler). The queue
// is swept every 10 ms, and the sweep may be up to 4 ms late, because a simulated thread takes up to 2 ms to wake up.
constexpr absl::Duration kMaxDead = absl::Milliseconds(15);

// Maximum time from when a job leaves the queue unscored to its answer. The reaper (the thread that answers such jobs)
// takes up to 2 ms to wake up, may answer other jobs first, and takes up to 2 ms to answer.
constexpr absl::Duration kMaxUnanswered = absl::Milliseconds(7);

uint64_t JobsOf(const QueueSize& amount) { return static_cast<uint64_t>(amount.jobs); }
uint64_t WorkOf(const QueueSize& amount) { return amount.work; }
uint64_t BytesOf(const QueueSize& amount) { return amount.bytes; }
using Quantity = uint64_t (*)(const QueueSize&);
constexpr std::array<Quantity, 3> kQuantities = {JobsOf, WorkOf, BytesOf};

void Count(const JobRecord& record, int sign, QueueSize* amount) {
  amount->jobs += sign;
  amount->work += sign > 0 ? record.work : 0 - record.work;
  amount->bytes += sign > 0 ? record.bytes : 0 - record.bytes;
}

}  // namespace

Ledger::Ledger(const SchedulerOptions& options, int num_lanes, bool one_collection)
    : options_(options), num_lanes_(num_lanes), fairness_(one_collection), starvation_(options.starvation_limit) {}

JobRecord& Ledger::Add() {
  const uint64_t number = records_.size();
  records_.emplace_back().number = number;
  return records_.back();
}

void Ledger::Accepted(JobRecord& record, absl::Time now) {
  if (now >= record.deadline) Break(absl::StrCat("job ", record.number, " was accepted after its deadline"));
  record.state = State::kWaiting;
  if (options_.max_queue_time > absl::ZeroDuration()) record.expires = record.enqueued + options_.max_queue_time;
  auto& clients = waiting_[record.line];
  if (clients.empty()) starvation_.Changed(record.line);
  clients[record.client].insert(record.number);
  Count(record, 1, &held_[record.client]);
  Count(record, 1, &total_);
  queries_ += record.queries;
  fairness_.Came(record.line, record.client, record.work, clients);
}

void Ledger::LeftQueue(JobRecord& record) {
  auto& clients = waiting_[record.line];
  clients[record.client].erase(record.number);
  if (clients[record.client].empty()) {
    clients.erase(record.client);
    fairness_.Left(record.line, record.client);
  }
  Count(record, -1, &total_);
  Count(record, -1, &held_[record.client]);
  if (held_[record.client].jobs == 0) held_.erase(record.client);
  queries_ -= record.queries;
}

// Checks that a job was refused for a valid reason. For refusals by max_queue_time, which depend on an estimate, only
// checks that other jobs wait.
void Ledger::Refused(JobRecord& record, const absl::Status& status, absl::Time now, bool stopping, bool lost) {
  record.state = State::kRefused;
  ++refusals_[static_cast<size_t>(status.code())];
  const auto reason = [&](bool is_there) {
    if (!is_there) Break(absl::StrCat("job ", record.number, " was refused for no reason: ", status.ToString()));
  };
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return reason(stopping || lost);
    case absl::StatusCode::kDeadlineExceeded:
      return reason(now >= record.deadline);
    case absl::StatusCode::kResourceExhausted:
      break;
    default:
      return reason(false);
  }
  if (!status.GetPayload(kQueueFullMark).has_value()) return reason(false);
  if (status.message().find("would wait for about") != std::string::npos) return reason(total_.jobs > 0);
  // Checks the rule for bounds of the queue. An empty queue takes any job. A job beyond a bound is accepted if its
  // client stays within its share ("the bound over the number of clients"), unless jobs of higher priority wait.
  if (total_.jobs == 0) return reason(false);
  const QueueSize bounds = {options_.max_queue_jobs, options_.max_queue_work, options_.max_queue_bytes};
  const QueueSize more = {1, record.work, record.bytes};
  const auto held = held_.find(record.client);
  const QueueSize mine = held == held_.end() ? QueueSize() : held->second;
  const uint64_t num_clients = held_.size() + (held == held_.end() ? 1 : 0);
  bool breaks = false;
  bool within_share = true;
  for (const Quantity quantity : kQuantities) {
    if (quantity(total_) + quantity(more) <= quantity(bounds)) continue;
    breaks = true;
    within_share = within_share && quantity(mine) + quantity(more) <= quantity(bounds) / num_clients;
  }
  bool higher_wait = false;
  for (size_t line = record.line + 1; line < waiting_.size(); ++line) higher_wait |= !waiting_[line].empty();
  reason(breaks && (!within_share || higher_wait));
}

void Ledger::SeeDropped(const std::vector<DroppedJob>& dropped, absl::Time now) {
  for (; num_dropped_seen_ < dropped.size(); ++num_dropped_seen_) Dropped(dropped[num_dropped_seen_], now);
}

void Ledger::ReaperTook(const std::vector<DroppedJob>& dropped, absl::Time now) {
  SeeDropped(dropped, now);
  num_dropped_seen_ = 0;
}

void Ledger::Compare(const SchedulerStats& stats) {
  // Tells the starvation check again which lines (waiting jobs of one priority) have dropped jobs. A job that was
  // dropped while a batch was formed may have been the next of its line when the batch began.
  for (size_t line = 0; line < dropped_from_.size(); ++line) {
    if (std::exchange(dropped_from_[line], false)) starvation_.Changed(line);
  }
  const SchedulerStats mine = {total_.jobs, static_cast<int64_t>(held_.size()), total_.work, total_.bytes, running_};
  if (stats.queued_jobs != mine.queued_jobs || stats.queued_clients != mine.queued_clients ||
      stats.queued_work != mine.queued_work || stats.queued_bytes != mine.queued_bytes ||
      stats.running_jobs != mine.running_jobs) {
    Break(absl::StrCat("the books differ: ", stats.queued_jobs, " jobs of ", stats.queued_clients, " clients, work ",
                       stats.queued_work, ", bytes ", stats.queued_bytes, ", running ", stats.running_jobs,
                       "; there are ", mine.queued_jobs, ", ", mine.queued_clients, ", ", mine.queued_work, ", ",
                       mine.queued_bytes, ", ", mine.running_jobs));
  }
  // Checks the promise of SchedulerOptions that a job beyond a bound of the queue is "rejected, unless the queue is
  // empty (so that one large job can always run)".
  if (total_.jobs > 1 && (total_.jobs > options_.max_queue_jobs || total_.work > options_.max_queue_work ||
                          total_.bytes > options_.max_queue_bytes)) {
    Break(absl::StrCat("admission: ", total_.jobs, " jobs, work ", total_.work, " and bytes ", total_.bytes, " wait"));
  }
}

// Checks that the queue was right to drop this job in favour of a new one. The dropped job must belong to another
// client, which holds at least the average of the clients' jobs, work or bytes. It must be that client's newest job of
// its lowest priority, and that priority must not be above the new job's.
void Ledger::CheckDisplaced(const JobRecord& record) {
  const JobRecord& newest = records_[static_cast<size_t>(*waiting_[record.line].at(record.client).rbegin())];
  bool lower_waits = false;
  for (size_t line = 0; line < record.line; ++line) lower_waits |= waiting_[line].contains(record.client);
  bool holds_much = false;
  for (const Quantity quantity : kQuantities) {
    holds_much |= quantity(held_.at(record.client)) * held_.size() >= quantity(total_);
  }
  if (newest.number != record.number || lower_waits || !holds_much || newcomer_ == nullptr ||
      newcomer_->client == record.client || newcomer_->line < record.line) {
    Break(absl::StrCat("job ", record.number, " of client ", record.client, " was displaced, and should not"));
  }
}

void Ledger::Dropped(const DroppedJob& dropped, absl::Time now) {
  JobRecord& record = of(dropped.queued.job.get());
  if (record.state != State::kWaiting)
    return Break(absl::StrCat("job ", record.number, " was dropped, and not waiting"));
  record.drop_reason = dropped.reason;
  record.dropped_at = now;
  switch (dropped.reason.code()) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
      if (now < record.dead_at) Break(absl::StrCat("job ", record.number, " was dropped alive"));
      if (now - record.dead_at > kMaxDead) {
        Break(absl::StrCat("job ", record.number, " left ", absl::FormatDuration(now - record.dead_at),
                           " after it was dead"));
      }
      break;
    case absl::StatusCode::kResourceExhausted:
      if (dropped.reason.GetPayload(kQueueFullMark) == absl::Cord(kQueueTimeMark)) {
        ++expired_;
        if (now < record.expires) Break(absl::StrCat("job ", record.number, " was dropped before max_queue_time"));
        if (now - record.expires > kMaxDead) {
          Break(absl::StrCat("job ", record.number, " waited for ", absl::FormatDuration(now - record.enqueued)));
        }
        break;
      }
      ++displaced_;
      CheckDisplaced(record);
      break;
    case absl::StatusCode::kUnavailable:
      if (!device_lost_ && !stop_now_) Break(absl::StrCat("job ", record.number, " was dropped for no reason"));
      break;
    default:
      Break(absl::StrCat("job ", record.number, " was dropped with ", dropped.reason.ToString()));
  }
  record.state = State::kDropped;
  starvation_.Changed(record.line);
  dropped_from_[record.line] = true;
  LeftQueue(record);
}

void Ledger::Taken(const Batch& batch, absl::Time now) {
  if (batch.lane < 0 || batch.lane >= num_lanes_ || !busy_lanes_.insert(batch.lane).second) {
    Break(absl::StrCat("a batch on lane ", batch.lane, ", which is taken"));
  }
  uint64_t work = 0;
  int64_t queries = 0;
  for (size_t idx = 0; idx < batch.jobs.size(); ++idx) {
    JobRecord& record = of(batch.jobs[idx].job.get());
    if (record.state != State::kWaiting)
      return Break(absl::StrCat("job ", record.number, " was taken, and not waiting"));
    if (now >= record.dead_at) Break(absl::StrCat("job ", record.number, " was taken dead"));
    if (now >= record.expires) Break(absl::StrCat("job ", record.number, " was taken after max_queue_time"));
    if (record.collection != records_[of(batch.jobs[0].job.get()).number].collection)
      Break("a batch mixes collections");
    // Jobs of one client, priority and collection must be taken in the order in which they were submitted.
    for (const uint64_t before : waiting_[record.line].at(record.client)) {
      if (before >= record.number) break;
      if (records_[before].collection == record.collection &&
          now < std::min(records_[before].dead_at, records_[before].expires)) {
        Break(absl::StrCat("order: job ", record.number, " of client ", record.client, " goes before ", before));
      }
    }
    work += record.work;
    queries += record.queries;
    const std::string starved =
        idx == 0 ? starvation_.Began(record.line, record.number, record.enqueued, now) : std::string();
    const std::string unfair = fairness_.Served(record.line, record.client, record.work, idx == 0);
    if (!starved.empty()) Break(starved);
    if (!unfair.empty()) Break(unfair);
    starvation_.Changed(record.line);
    LeftQueue(record);
    record.state = State::kRunning;
    ++running_;
  }
  if (batch.jobs.size() > 1 && (work > options_.max_batch_work || queries > options_.max_batch_queries)) {
    Break(absl::StrCat("a batch of ", batch.jobs.size(), " jobs has work ", work, " and ", queries, " queries"));
  }
}

void Ledger::Scored(const Batch& batch) {
  busy_lanes_.erase(batch.lane);
  running_ -= static_cast<int64_t>(batch.jobs.size());
  for (size_t idx = 0; idx < batch.jobs.size(); ++idx) {
    JobRecord& record = of(batch.jobs[idx].job.get());
    record.expected = batch.results[idx].status();
    record.scored_end = batch.end;
    record.dead_before_end = batch.end >= record.dead_at;
    if (absl::IsUnavailable(record.expected) && batch.stopped && !device_lost_) ++failed_by_stop_;
  }
}

void Ledger::Answered(uint64_t number, const absl::Status& status, absl::Time now) {
  JobRecord& record = records_[static_cast<size_t>(number)];
  ++answers_[static_cast<size_t>(status.code())];
  bool right = false;
  if (record.state == State::kDropped) {
    right = status == record.drop_reason;
    if (now - record.dropped_at > kMaxUnanswered) {
      Break(absl::StrCat("job ", number, " was answered ", absl::FormatDuration(now - record.dropped_at),
                         " after it left the queue"));
    }
  } else if (record.state == State::kRunning) {
    // The answer to a running job must be a result, with two exceptions: scoring gave an error, or the job was
    // cancelled or expired before scoring ended. A job that is cancelled between that end and the answer may get
    // either.
    const bool dead = absl::IsCancelled(status) ? now >= record.dead_at : record.dead_before_end;
    right = record.expected.ok() ? (status.ok() ? !record.dead_before_end : dead) : status == record.expected;
  }
  if (!right) {
    Break(absl::StrCat("job ", number, " in state ", static_cast<int>(record.state), " was answered with ",
                       status.ToString()));
  }
  record.state = State::kAnswered;
}

void Ledger::Over(const Dispatcher& dispatcher, int64_t num_failed_by_stop) {
  for (const JobRecord& record : records_) {
    if (record.state != State::kAnswered && record.state != State::kRefused) {
      return Break(
          absl::StrCat("job ", record.number, " was never answered; it is in state ", static_cast<int>(record.state)));
    }
  }
  Compare(dispatcher.stats());
  if (!device_lost_ && num_failed_by_stop != failed_by_stop_) {
    Break(absl::StrCat("the shutdown counts ", num_failed_by_stop, " failed jobs, and there are ", failed_by_stop_));
  }
}

void Ledger::Cancel(JobRecord& record, absl::Time now) {
  record.cancelled->store(true, std::memory_order_relaxed);
  record.dead_at = std::min(record.dead_at, now);
}

JobRecord* Ledger::AnyWaiting(uint64_t random) {
  for (size_t turn = 0; turn < waiting_.size(); ++turn) {
    const auto& clients = waiting_[(random + turn) % waiting_.size()];
    if (clients.empty()) continue;
    const auto client = std::next(clients.begin(), static_cast<int64_t>(random / 4 % clients.size()));
    const auto& jobs = client->second;
    // Chooses among the 16 jobs at either end of the list. Walking through a long list would take most of the
    // simulation's time.
    const auto offset = static_cast<int64_t>(random / 64 % std::min<size_t>(jobs.size(), 16));
    const uint64_t number = random % 2 == 0 ? *std::next(jobs.begin(), offset) : *std::next(jobs.rbegin(), offset);
    return &records_[static_cast<size_t>(number)];
  }
  return nullptr;
}

}  // namespace maxsim::batching
