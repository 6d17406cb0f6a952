// The writer of a live collection.
#include <algorithm>
#include <utility>

#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "client/status.h"
#include "server/live/local/live_collection_impl.h"
#include "server/live/local/write_metrics.h"
#include "server/observability/log_event.h"

namespace maxsim::live {
namespace {

using collection::LogRecord;

// Bounds the memory of a group, of which the log and the device are handed copies. Larger ones are slower: these copies
// would be in memory that is fresh from the kernel each time, and would leave the caches.
constexpr uint64_t kMaxGroupBytes = uint64_t{8} << 20;

// The calls wait as long as there is no memory even for a list of them.
constexpr absl::Duration kNoMemoryPoll = absl::Milliseconds(10);

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(100);
constexpr absl::Duration kMaxBackoff = absl::Seconds(10);

// Clients come back after this, when memory or the disk is full: a compaction takes a while, as does somebody who
// clears a disk up.
constexpr absl::Duration kFullRetryDelay = absl::Seconds(2);

absl::Status WithRetry(absl::Status status, absl::Duration delay) {
  client::SetRetryAfter(delay, status);
  return status;
}

// Does what nothing depends on, or not where there is no memory for it.
template <typename Work>
void TryTo(Work work) {
  Guarded([&] {
    work();
    return absl::OkStatus();
  }).IgnoreError();
}

}  // namespace

void LiveCollection::Submit(std::vector<store::Write> writes, const store::WriteCaller& caller, Done done) {
  Accept({.writes = std::move(writes), .done = std::move(done), .arrived = MonotonicNow(), .caller = caller},
         /*is_bounded=*/true);
}

void LiveCollection::ApplyMessages(uint64_t first_sequence, std::vector<store::Write> messages, Done done) {
  Accept({.writes = std::move(messages),
          .done = std::move(done),
          .arrived = MonotonicNow(),
          .first_sequence = first_sequence},
         /*is_bounded=*/false);
}

void LiveCollection::Accept(WriteCall call, bool is_bounded) {
  for (const store::Write& write : call.writes) call.num_bytes += write.num_bytes();
  absl::Status refused;
  bool is_served = true;  // else its metrics are gone, or will be
  {
    const MutexLock lock(&mutex_);
    is_served = !stopping_ && served_generation_ != 0;
    if (stopping_) {
      refused = Unloading();
    } else if (served_generation_ == 0) {
      refused = absl::UnavailableError(Cat("collection ", request_.name, " is still loading"));
    } else if (is_bounded) {
      refused = queue_.Admit(call, call.arrived);
    }
    if (refused.ok()) {
      queue_.Push(std::move(call));
      writer_.Wake();
      return;
    }
  }
  if (is_served) CountRefused(metrics_, request_.name, call);
  call.done(std::move(refused));
}

// Writes one group, and returns when the next step is due.
absl::Time LiveCollection::WriteOnce() {
  MutexLock lock(&mutex_);
  if (paused_ || waiting_pauses_ > 0) return absl::InfiniteFuture();  // the end of the pause wakes the writer
  const bool recover = MonotonicNow() >= retry_at_;
  if (queue_.empty() && stopping_) {
    writer_ended_ = true;
    changed_.NotifyAll();
    return absl::InfiniteFuture();
  }
  if (queue_.empty() && !recover) return retry_at_;
  std::vector<WriteCall> calls;
  std::vector<WriteQueue::Expired> expired;
  const absl::Status taken = Guarded([&] {
    mutex_.AssertHeld();
    calls = queue_.TakeGroup(kMaxGroupBytes, MonotonicNow(), &expired);
    return absl::OkStatus();
  });
  if (!taken.ok()) return MonotonicNow() + kNoMemoryPoll;
  writing_ = true;
  lock.Unlock();
  AnswerExpired(expired);
  if (recover) TryToRecover();
  const absl::Time begin = MonotonicNow();
  WriteCalls(calls);
  // Calls that fail because nothing can be written say nothing about the rate of writes.
  const absl::Duration took = failure_.ok() ? MonotonicNow() - begin : absl::ZeroDuration();
  uint64_t work = 0;
  for (WriteCall& call : calls) {
    work += call.work();
    call.writes = {};  // frees them outside of the lock
    call.done = nullptr;
  }
  lock.Lock();
  writing_ = false;
  for (const WriteCall& call : calls) queue_.Finish(call.client(), call.num_bytes);
  for (const WriteQueue::Expired& one : expired) queue_.Finish(one.call.client(), one.call.num_bytes);
  queue_.ObserveGroup(work, took);
  if (waiting_pauses_ > 0) changed_.NotifyAll();
  return queue_.empty() && !stopping_ ? retry_at_ : absl::InfinitePast();
}

void LiveCollection::AnswerExpired(std::vector<WriteQueue::Expired>& expired) {
  for (WriteQueue::Expired& one : expired) {
    TryTo([&] { CountRefused(metrics_, request_.name, one.call); });
    one.call.done(std::move(one.reason));
    one.call.done = nullptr;
  }
}

void LiveCollection::WriteCalls(std::vector<WriteCall>& calls) {
  if (calls.empty()) return;
  absl::StatusOr<std::vector<Answer>> answers = Guarded([&]() -> absl::StatusOr<std::vector<Answer>> {
    if (failure_.ok()) return WriteAsOneGroup(calls);
    return WithRetry(
        absl::UnavailableError(Cat("nothing can be written to collection ", request_.name, ": ", failure_.message())),
        backoff_);
  });
  if (!answers.ok()) {
    TryTo([&] { CountFailed(metrics_, request_.name, calls); });
  }
  for (size_t idx = 0; idx < calls.size(); ++idx) {
    calls[idx].done(answers.ok() ? std::move((*answers)[idx]) : Answer(answers.status()));
  }
}

// An error is that of all calls, of which nothing is written.
absl::StatusOr<std::vector<LiveCollection::Answer>> LiveCollection::WriteAsOneGroup(
    const std::vector<WriteCall>& calls) {
  ChangesWriter& writer = *served_.writer;
  full_ = absl::OkStatus();
  absl::StatusOr<Planned> planned = Guarded([&] { return PlanGroup(calls); });
  if (!planned.ok()) {
    writer.Forget();
    return WithRetry(planned.status(), kFullRetryDelay);
  }
  std::vector<Answer>& answers = planned->answers;
  const absl::Time begin = MonotonicNow();
  absl::Time durable = begin;
  if (!planned->records.empty()) {
    const absl::Status status = Guarded([&] { return AppendAndPublish(planned->records, &durable); });
    if (!status.ok()) {
      // A call that was refused keeps its own reason.
      for (Answer& answer : answers) {
        if (answer.ok()) answer = status;
      }
    }
  }
  for (Answer& answer : answers) {
    if (answer.ok()) answer->sequence = writer.sequence();
  }
  TryTo([&] {
    UpdateState();
    ObserveGroup(
        metrics_, request_.name, calls, answers,
        {.num_records = planned->records.size(), .begin = begin, .durable = durable, .visible = MonotonicNow()});
  });
  return std::move(planned->answers);
}

absl::StatusOr<LiveCollection::Planned> LiveCollection::PlanGroup(const std::vector<WriteCall>& calls) {
  ChangesWriter& writer = *served_.writer;
  const bool of_stream = calls.front().first_sequence != 0;
  const std::shared_ptr<collection::CollectionLog> log = this->log();
  WriteGroup group(format_.id_type, writer.sequence(),
                   {.holds = [&](const LogRecord& record) { return writer.changes().Holds(record); },
                    .version_of =
                        [this, log](const LogRecord& record, uint64_t pending_bytes) {
                          return format_.id_type == collection::IdType::kString
                                     ? log->VersionOf(record.string_id, pending_bytes)
                                     : log->VersionOf(record.int_id, pending_bytes);
                        },
                    .remembered_bytes = log->remembered_bytes()},
                   of_stream ? WriteGroup::Numbering::kOfAll : WriteGroup::Numbering::kOfThoseThatTakePlace);
  writer.Begin();
  Planned planned;
  planned.answers.reserve(calls.size());
  for (const WriteCall& call : calls) {
    planned.answers.push_back(of_stream ? PlanMessages(call, group, planned.records)
                                        : PlanCall(call, group, planned.records));
  }
  return planned;
}

// Decides about a call, and finds room for what it writes. Each call fits by itself or not: one that does not keeps
// none behind it waiting, and nothing of it is written.
LiveCollection::Answer LiveCollection::PlanCall(const WriteCall& call, WriteGroup& group,
                                                std::vector<LogRecord>& records) {
  absl::StatusOr<std::vector<store::WriteResult>> results = PlanWrites(call.writes, group, records);
  if (!results.ok()) return results.status();
  return store::WriteResults{.results = *std::move(results), .sequence = 0};
}

// Decides about each message by itself: those behind one that finds no room wait for it.
LiveCollection::Answer LiveCollection::PlanMessages(const WriteCall& call, WriteGroup& group,
                                                    std::vector<LogRecord>& records) {
  if (call.first_sequence != group.last_sequence() + 1) {
    return absl::FailedPreconditionError(Cat("collection ", request_.name, " has applied the stream up to sequence ",
                                             group.last_sequence(), ", and the next message has ",
                                             call.first_sequence));
  }
  store::WriteResults answer;
  answer.results.reserve(call.writes.size());
  for (const store::Write& message : call.writes) {
    const absl::StatusOr<std::vector<store::WriteResult>> result = PlanWrites({&message, 1}, group, records);
    if (result.ok()) {
      answer.results.push_back(result->front());
      continue;
    }
    if (answer.results.empty()) return result.status();
    break;
  }
  return answer;
}

// All of the writes are planned, or none.
absl::StatusOr<std::vector<store::WriteResult>> LiveCollection::PlanWrites(absl::Span<const store::Write> writes,
                                                                           WriteGroup& group,
                                                                           std::vector<LogRecord>& records) {
  absl::StatusOr<WriteGroup::Decision> decision = group.Decide(writes);
  if (!decision.ok()) return WithRetry(decision.status(), kFullRetryDelay);
  if (absl::Status status = served_.writer->Plan(decision->records); !status.ok()) {
    group.Drop();
    return absl::IsResourceExhausted(status) ? NoMemory(status) : status;
  }
  group.Keep();
  records.insert(records.end(), decision->records.begin(), decision->records.end());
  return std::move(decision->results);
}

absl::Status LiveCollection::NoMemory(const absl::Status& status) {
  compactor_->NeedMemory();
  full_ = absl::ResourceExhaustedError(
      options_.compact ? Cat(status.message(), "; a compaction makes room")
                       : Cat(status.message(),
                             "; live.compact is off, so that only a compaction that somebody asks for "
                             "makes room"));
  return WithRetry(full_, kFullRetryDelay);
}

absl::Status LiveCollection::AppendAndPublish(const std::vector<LogRecord>& records, absl::Time* durable) {
  // Without memory nobody knows how far each of these came: recovering finds it out.
  if (absl::Status status = Guarded([&] { return log()->Append(records); }); !status.ok()) {
    Fail(status, /*of_log=*/true);
    if (absl::IsResourceExhausted(status)) return WithRetry(std::move(status), kFullRetryDelay);
    return WithRetry(absl::UnavailableError(status.message()), backoff_);
  }
  *durable = MonotonicNow();
  const absl::Status status = Guarded([&] {
    absl::Status committed = served_.writer->Commit();
    if (committed.ok()) PublishSnapshot();
    return committed;
  });
  if (!status.ok()) {
    Fail(status, /*of_log=*/false);
    return WithRetry(
        absl::UnavailableError(Cat("the log has the writes, but they cannot be served yet: ", status.message())),
        backoff_);
  }
  return absl::OkStatus();
}

void LiveCollection::Fail(const absl::Status& status, bool of_log) {
  failure_ = status;
  log_failed_ |= of_log;
  backoff_ = kFirstBackoff;
  {
    const MutexLock lock(&mutex_);
    retry_at_ = MonotonicNow() + backoff_;
  }
  TryTo([&] {
    log::Write(spdlog::level::err, "writes_refused",
               {{"name", request_.name}, {"sequence", served_.writer->sequence()}, {"error", status.ToString()}});
  });
}

// Finds out what the log holds and applies it, whether or not it was acknowledged.
absl::Status LiveCollection::Recover() {
  if (log_failed_) {
    if (absl::Status status = log()->Recover(); !status.ok()) return status;
    log_failed_ = false;
  }
  absl::Status status = served_.writer->CatchUp(*log(), log()->last_sequence(), &stop_);
  if (status.ok()) PublishSnapshot();
  return status;
}

void LiveCollection::TryToRecover() {
  const uint64_t before = served_.writer->sequence();
  const absl::Status status = Guarded([&] { return Recover(); });
  failure_ = status;
  if (!status.ok()) {
    backoff_ = std::min(2 * backoff_, kMaxBackoff);
    if (absl::IsResourceExhausted(status)) compactor_->NeedMemory();
  }
  {
    const MutexLock lock(&mutex_);
    retry_at_ = status.ok() ? absl::InfiniteFuture() : MonotonicNow() + backoff_;
  }
  TryTo([&] {
    UpdateState();
    if (!status.ok()) return;
    const uint64_t sequence = served_.writer->sequence();
    log::Write(spdlog::level::info, "writes_resume",
               {{"name", request_.name}, {"sequence", sequence}, {"recovered", sequence - before}});
  });
}

void LiveCollection::PublishSnapshot() { served_.publish(served_.writer->Snapshot()); }

void LiveCollection::UpdateState() {
  const ChangesWriter& writer = *served_.writer;
  store::Changes& changes = served_.writer->changes();
  store::LiveState now;
  now.sequence = writer.sequence();
  now.compacted_sequence = writer.generation().manifest().log_sequence.value_or(0);
  now.num_changed_documents = changes.num_changed();
  now.num_deleted_documents = changes.num_tombstones();
  now.num_segments = writer.segments().size();
  for (const LiveSegment& segment : writer.segments()) {
    now.segment_bytes += segment.capacity_bytes * segment.devices.size();
  }
  now.segment_used_bytes = writer.used_bytes();
  now.status = failure_.ok() ? full_ : failure_;
  compactor_->Observe({.sequence = now.sequence,
                       .compacted_sequence = now.compacted_sequence,
                       .segment_bytes = now.segment_used_bytes + writer.text_bytes(),
                       .num_documents = changes.num_documents(),
                       .num_tombstones = now.num_deleted_documents});
  const MutexLock lock(&mutex_);
  now.is_compacting = state_.is_compacting;
  state_ = std::move(now);
}

}  // namespace maxsim::live
