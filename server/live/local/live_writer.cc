#include "server/live/local/live_writer.h"

#include <algorithm>
#include <utility>

#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "client/status.h"
#include "server/live/local/write_metrics.h"
#include "server/observability/log_event.h"

namespace maxsim::live {
namespace {

using collection::LogRecord;

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(100);
constexpr absl::Duration kMaxBackoff = absl::Seconds(10);

// The retry delay that clients get if memory or the disk is full. A compaction or an operator must first free some.
constexpr absl::Duration kFullRetryDelay = absl::Seconds(2);

absl::Status WithRetry(absl::Status status, absl::Duration delay) {
  client::SetRetryAfter(delay, status);
  return status;
}

// Runs optional work. If memory runs out in it, goes on without an error.
template <typename Work>
void TryTo(Work work) {
  Guarded([&] {
    work();
    return absl::OkStatus();
  }).IgnoreError();
}

}  // namespace

LiveWriter::Served LiveWriter::Serve(Served next) {
  if (served_.changes != nullptr) next.changes->TakeSegments(*served_.changes);
  Served before = std::exchange(served_, std::move(next));
  full_ = absl::OkStatus();
  PublishSnapshot();
  UpdateState();
  return before;
}

LiveWriter::Publish LiveWriter::Close() {
  log_ = nullptr;
  return std::exchange(served_.publish, nullptr);
}

store::LiveState LiveWriter::state() const {
  const MutexLock lock(&mutex_);
  return state_;
}

void LiveWriter::Write(std::vector<WriteCall>& calls) {
  absl::StatusOr<std::vector<Answer>> answers = Guarded([&]() -> absl::StatusOr<std::vector<Answer>> {
    if (failure_.ok()) return WriteAsOneGroup(calls);
    return WithRetry(
        absl::UnavailableError(Cat("nothing can be written to collection ", name_, ": ", failure_.message())),
        backoff_);
  });
  if (!answers.ok()) {
    TryTo([&] { CountFailed(metrics_, name_, calls); });
  }
  for (size_t idx = 0; idx < calls.size(); ++idx) {
    calls[idx].done(answers.ok() ? std::move((*answers)[idx]) : Answer(answers.status()));
  }
}

// Returns an answer per call. If this returns an error instead, the error is the answer to all calls, and none of
// them was written.
absl::StatusOr<std::vector<LiveWriter::Answer>> LiveWriter::WriteAsOneGroup(const std::vector<WriteCall>& calls) {
  ChangesWriter& writer = *served_.changes;
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
      // A call that was already refused keeps its own error.
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
        metrics_, name_, calls, answers,
        {.num_records = planned->records.size(), .begin = begin, .durable = durable, .visible = MonotonicNow()});
  });
  return std::move(planned->answers);
}

absl::StatusOr<LiveWriter::Planned> LiveWriter::PlanGroup(const std::vector<WriteCall>& calls) {
  ChangesWriter& writer = *served_.changes;
  const bool of_stream = calls.front().first_sequence != 0;
  collection::CollectionLog* const log = log_.get();
  WriteGroup group(log_->format().id_type, writer.sequence(),
                   {.holds = [&](const LogRecord& record) { return writer.changes().Holds(record); },
                    .version_of =
                        [this, log](const LogRecord& record, uint64_t pending_bytes) {
                          return log_->format().id_type == collection::IdType::kString
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

// Decides which writes of a call take place, and plans room for them in segments. If they do not all fit, none of
// them is written, but later calls are still planned.
LiveWriter::Answer LiveWriter::PlanCall(const WriteCall& call, WriteGroup& group, std::vector<LogRecord>& records) {
  absl::StatusOr<std::vector<store::WriteResult>> results = PlanWrites(call.writes, group, records);
  if (!results.ok()) return results.status();
  return store::WriteResults{.results = *std::move(results), .sequence = 0};
}

// Decides about each message separately whether it takes place. If segments have no room for a message, this message
// and all later ones are left for another call.
LiveWriter::Answer LiveWriter::PlanMessages(const WriteCall& call, WriteGroup& group, std::vector<LogRecord>& records) {
  if (call.first_sequence != group.last_sequence() + 1) {
    return absl::FailedPreconditionError(Cat("collection ", name_, " has applied the stream up to sequence ",
                                             group.last_sequence(), ", but the next message has ",
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

// Plans all of the writes or, if one of them fails, none.
absl::StatusOr<std::vector<store::WriteResult>> LiveWriter::PlanWrites(absl::Span<const store::Write> writes,
                                                                       WriteGroup& group,
                                                                       std::vector<LogRecord>& records) {
  absl::StatusOr<WriteGroup::Decision> decision = group.Decide(writes);
  if (!decision.ok()) return WithRetry(decision.status(), kFullRetryDelay);
  if (absl::Status status = served_.changes->Plan(decision->records); !status.ok()) {
    group.Drop();
    return absl::IsResourceExhausted(status) ? NoMemory(status) : status;
  }
  group.Keep();
  records.insert(records.end(), decision->records.begin(), decision->records.end());
  return std::move(decision->results);
}

absl::Status LiveWriter::NoMemory(const absl::Status& status) {
  compactor_->NeedMemory();
  full_ =
      absl::ResourceExhaustedError(compacts_ ? Cat(status.message(), "; a compaction makes room")
                                             : Cat(status.message(),
                                                   "; live.compact is off, so that only a compaction that is asked for "
                                                   "makes room"));
  return WithRetry(full_, kFullRetryDelay);
}

absl::Status LiveWriter::AppendAndPublish(const std::vector<LogRecord>& records, absl::Time* durable) {
  // If memory runs out in Append or Commit, it is not known which records were written. TryToRecover will find out.
  if (absl::Status status = Guarded([&] { return log_->Append(records); }); !status.ok()) {
    Fail(status, /*of_log=*/true);
    if (absl::IsResourceExhausted(status)) return WithRetry(std::move(status), kFullRetryDelay);
    return WithRetry(absl::UnavailableError(status.message()), backoff_);
  }
  *durable = MonotonicNow();
  const absl::Status status = Guarded([&] {
    absl::Status committed = served_.changes->Commit();
    if (committed.ok()) PublishSnapshot();
    return committed;
  });
  if (!status.ok()) {
    Fail(status, /*of_log=*/false);
    return WithRetry(
        absl::UnavailableError(Cat("the log has the writes, but the server cannot serve them yet: ", status.message())),
        backoff_);
  }
  return absl::OkStatus();
}

void LiveWriter::Fail(const absl::Status& status, bool of_log) {
  failure_ = status;
  log_failed_ |= of_log;
  backoff_ = kFirstBackoff;
  retry_at_ = MonotonicNow() + backoff_;
  TryTo([&] {
    log::Write(spdlog::level::err, "writes_refused",
               {{"name", name_}, {"sequence", served_.changes->sequence()}, {"error", status.ToString()}});
  });
}

// Reads the log and applies all of its records, even those whose calls were not answered with OK.
absl::Status LiveWriter::Recover(const StopSignal* stop) {
  if (log_failed_) {
    if (absl::Status status = log_->Recover(); !status.ok()) return status;
    log_failed_ = false;
  }
  absl::Status status = served_.changes->CatchUp(*log_, log_->last_sequence(), stop);
  if (status.ok()) PublishSnapshot();
  return status;
}

void LiveWriter::TryToRecover(const StopSignal* stop) {
  const uint64_t before = served_.changes->sequence();
  const absl::Status status = Guarded([&] { return Recover(stop); });
  failure_ = status;
  if (!status.ok()) {
    backoff_ = std::min(2 * backoff_, kMaxBackoff);
    if (absl::IsResourceExhausted(status)) compactor_->NeedMemory();
  }
  retry_at_ = status.ok() ? absl::InfiniteFuture() : MonotonicNow() + backoff_;
  TryTo([&] {
    UpdateState();
    if (!status.ok()) return;
    const uint64_t sequence = served_.changes->sequence();
    log::Write(spdlog::level::info, "writes_resume",
               {{"name", name_}, {"sequence", sequence}, {"recovered", sequence - before}});
  });
}

void LiveWriter::PublishSnapshot() { served_.publish(served_.changes->Snapshot()); }

void LiveWriter::UpdateState() {
  const ChangesWriter& writer = *served_.changes;
  store::Changes& changes = served_.changes->changes();
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
  state_ = std::move(now);
}

}  // namespace maxsim::live
