// Applies the messages of the stream to the collection.
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/thread_name.h"
#include "client/status.h"
#include "server/live/local/write_metrics.h"
#include "server/live/stream/later_version.h"
#include "server/live/stream/streamed_collection.h"
#include "server/observability/live_metrics.h"
#include "server/observability/log_event.h"
#include "server/observability/metrics.h"

namespace maxsim::live {
namespace {

// The timeout of Receive, after which the thread checks whether it must end.
constexpr absl::Duration kReceivePoll = absl::Milliseconds(500);

// The waits between attempts to follow a stream. They grow up to kMaxFollowWait. So after JetStream is available
// again, a collection takes writes at most this much later.
constexpr absl::Duration kFirstFollowWait = absl::Milliseconds(50);
constexpr absl::Duration kMaxFollowWait = absl::Seconds(2);

// The waits between attempts to apply a message for which the segments have no room. Only a compaction makes room,
// and it takes a second or more.
constexpr absl::Duration kFirstApplyWait = absl::Milliseconds(20);
constexpr absl::Duration kMaxApplyWait = absl::Milliseconds(500);

// The retry delay of a call whose message came too late. From this message the server has just learned what the
// stream's clock shows, so another call will probably succeed.
constexpr absl::Duration kLateRetryDelay = absl::Milliseconds(10);

uint64_t MessageHash(const StreamMessage& message) { return XXH3_64bits(message.data.data(), message.data.size()); }

}  // namespace

bool StreamedCollection::leaving() const {
  const MutexLock lock(&mutex_);
  return leaving_;
}

void StreamedCollection::WaitUnlessLeaving(absl::Duration duration) {
  const absl::Time until = MonotonicNow() + duration;
  MutexLock lock(&mutex_);
  while (!leaving_) {
    const absl::Duration left = until - MonotonicNow();
    if (left <= absl::ZeroDuration()) return;
    changed_.WaitFor(lock, absl::ToChronoNanoseconds(left));
  }
}

void StreamedCollection::RunFollower() {
  NameThisThread("live_follower");
  absl::Duration wait = kFirstFollowWait;
  while (!leaving()) {
    const absl::Time begin = MonotonicNow();
    const absl::Status status = Guarded([&] { return FollowStream(); });
    if (leaving()) return;
    NoteLost(status);
    // If the stream was followed for a while, starts again with the shortest wait.
    wait = MonotonicNow() - begin > kMaxFollowWait ? kFirstFollowWait : std::min(2 * wait, kMaxFollowWait);
    WaitUnlessLeaving(wait);
  }
}

void StreamedCollection::NoteLost(const absl::Status& status) {
  bool is_new = false;
  uint64_t sequence = 0;
  {
    const MutexLock lock(&mutex_);
    is_new = following_ || lost_.code() != status.code() || lost_.message() != status.message();
    following_ = false;
    lost_ = status;
    blocked_ = absl::OkStatus();
    sequence = applied_sequence_;
  }
  changed_.NotifyAll();
  retention_.NoteLost(MonotonicNow());
  if (!is_new) return;
  log::Write(absl::IsUnavailable(status) ? spdlog::level::warn : spdlog::level::err, "stream_not_followed",
             {{"name", name_}, {"sequence", sequence}, {"error", status.ToString()}});
}

void StreamedCollection::NoteBlocked(const absl::Status& status) {
  {
    const MutexLock lock(&mutex_);
    blocked_ = status;
  }
  changed_.NotifyAll();
}

// Checks that the collection has applied messages of this stream, up to `position`, and that the stream still has the
// next message. Returns DATA_LOSS if the stream ends too early.
absl::Status StreamedCollection::CheckStream(const StreamInfo& info, uint64_t position) const {
  const std::optional<collection::LogStream> followed = collection_->stream();
  const std::string here = Cat("collection ", name_, " has applied the messages up to sequence ", position);
  if (const uint64_t remembered = collection_->remembered_bytes(); remembered != options_.remembered_bytes) {
    return absl::FailedPreconditionError(
        Cat("the log of collection ", name_, " remembers the versions of deleted ids for ", remembered,
            " bytes, but this version of the server for ", options_.remembered_bytes,
            ": servers that follow one stream must agree; start this one from a snapshot of another server"));
  }
  if (followed.has_value() && !MayBeSame(*followed, info.stream)) {
    return absl::FailedPreconditionError(Cat(here, " of ", Describe(*followed), ", but ", stream_->server(), " has ",
                                             Describe(info.stream),
                                             ": it was deleted and created again; start every "
                                             "server from one snapshot or build, with a stream of its own"));
  }
  if (info.last_sequence < position) {
    return absl::DataLossError(Cat(here, ", but ", Describe(info.stream), " ends with sequence ", info.last_sequence,
                                   ": it has lost messages that were acknowledged"));
  }
  if (info.first_sequence > position + 1) {
    return absl::FailedPreconditionError(Cat(here, ", but ", Describe(info.stream), " begins with sequence ",
                                             info.first_sequence,
                                             ": the messages between are gone; start this server "
                                             "from a newer snapshot of another one (maxsimctl snapshot)"));
  }
  return absl::OkStatus();
}

// Opens and checks the stream. Reports lost messages only once NATS has had time to recover (StreamDoubt).
absl::StatusOr<StreamInfo> StreamedCollection::OpenStream(uint64_t position, bool is_known) {
  absl::StatusOr<StreamInfo> info = stream_->Open(/*create=*/!is_known && position == 0);
  if (absl::IsNotFound(info.status())) {
    return doubt_.Judge(
        absl::FailedPreconditionError(Cat("collection ", name_, " has applied the messages up to sequence ", position,
                                          " of a stream, but ", std::string(info.status().message()))),
        MonotonicNow());
  }
  if (info.ok()) retention_.Note(*info, position, MonotonicNow());
  absl::Status status = info.ok() ? CheckStream(*info, position) : info.status();
  if (absl::IsDataLoss(status)) {
    return doubt_.Judge(absl::FailedPreconditionError(status.message()), MonotonicNow());
  }
  doubt_.Clear();
  if (!status.ok()) return status;
  return info;
}

// Waits for the first messages of a subscription that begins with `sequence`. The stream must have this message.
// Returns at least one message, or UNAVAILABLE if none comes within nats.timeout, or the collection leaves the stream.
absl::StatusOr<std::vector<StreamMessage>> StreamedCollection::ReceiveFirst(uint64_t sequence) {
  const absl::Time until = MonotonicNow() + options_.nats.timeout;
  while (!leaving() && MonotonicNow() < until) {
    absl::StatusOr<std::vector<StreamMessage>> messages = stream_->Receive(kReceivePoll);
    if (!messages.ok() || !messages->empty()) return messages;
  }
  return absl::UnavailableError(Cat(stream_->server(), " does not send the message of sequence ", sequence));
}

// If the last attempt to follow the stream ended at a message that a later version of maxsimd wrote, and this is still
// the next message, returns the same error. Without this, the collection would seem connected for a moment with each
// attempt. `messages` has those that have already arrived after `position`. If there are none, waits for some and adds
// them.
absl::Status StreamedCollection::CheckNextVersion(uint64_t position, const StreamInfo& info,
                                                  std::vector<StreamMessage>& messages) {
  if (before_later_version_ != position || info.last_sequence <= position) return absl::OkStatus();
  if (messages.empty()) {
    absl::StatusOr<std::vector<StreamMessage>> first = ReceiveFirst(position + 1);
    if (!first.ok()) return first.status();
    messages = *std::move(first);
  }
  const bool is_next = messages.front().sequence == position + 1;  // ApplyAll reports a gap
  return is_next && NumBeforeLaterVersion(messages) == 0 ? OfLaterVersion(name_, messages.front()) : absl::OkStatus();
}

// Subscribes to the messages after `position`. If this process applied the message at `position` and the stream still
// has that message, subscribes from it on, and compares the message that arrives with the one that was applied. If they
// differ, returns FAILED_PRECONDITION: the stream lost messages, and gave their sequences to new ones. If they are
// equal, returns the messages that arrived together with it. If there is nothing to compare, returns no messages.
absl::StatusOr<std::vector<StreamMessage>> StreamedCollection::SubscribeAfter(uint64_t position,
                                                                              const StreamInfo& info) {
  if (position == 0 || last_message_.sequence != position || info.first_sequence > position) {
    if (absl::Status status = stream_->Subscribe(position); !status.ok()) return status;
    return std::vector<StreamMessage>();
  }
  if (absl::Status status = stream_->Subscribe(position - 1); !status.ok()) return status;
  absl::StatusOr<std::vector<StreamMessage>> messages = ReceiveFirst(position);
  if (!messages.ok()) return messages.status();
  const StreamMessage& first = messages->front();
  if (first.sequence != position || MessageHash(first) != last_message_.hash) {
    return absl::FailedPreconditionError(
        Cat("collection ", name_, " has applied the message of sequence ", position, " of ", Describe(info.stream),
            ", but the stream has another one there: it has lost messages that were acknowledged, and given their "
            "sequences to others; start every server from one snapshot or build, with a stream of its own"));
  }
  messages->erase(messages->begin());
  return messages;
}

// Follows the stream until a step fails or the thread must end.
absl::Status StreamedCollection::FollowStream() {
  const uint64_t begin = position();
  const bool is_known = collection_->stream().has_value();
  const absl::StatusOr<StreamInfo> info = OpenStream(begin, is_known);
  if (!info.ok()) return info.status();
  if (!is_known) {
    if (absl::Status status = collection_->Follow(info->stream); !status.ok()) return status;
  }
  absl::StatusOr<std::vector<StreamMessage>> messages = SubscribeAfter(begin, *info);
  if (!messages.ok()) return messages.status();
  if (absl::Status status = CheckNextVersion(begin, *info, *messages); !status.ok()) return status;
  {
    const MutexLock lock(&mutex_);
    following_ = true;
    lost_ = absl::OkStatus();
    applied_sequence_ = begin;
    catch_up_sequence_ = info->last_sequence;
  }
  publisher_.Wake();
  log::Write(spdlog::level::info, "stream_followed",
             {{"name", name_},
              {"stream", Describe(info->stream)},
              {"sequence", begin},
              {"last_sequence", info->last_sequence}});
  while (!leaving()) {
    if (absl::Status status = ApplyAll(*messages); !status.ok()) return status;
    LookAtRetention();
    messages = stream_->Receive(kReceivePoll);
    if (!messages.ok()) return messages.status();
  }
  return absl::OkStatus();
}

// Looks at the limits of the stream if IsDue says so. Ignores an error: Receive notices a lost connection.
void StreamedCollection::LookAtRetention() {
  const absl::Time now = MonotonicNow();
  if (!retention_.IsDue(now)) return;
  const absl::StatusOr<StreamInfo> info = stream_->Look();
  if (info.ok()) {
    retention_.Note(*info, position(), MonotonicNow());
  } else {
    retention_.Postpone(MonotonicNow());
  }
}

// Applies messages. If segments have no room for a message, waits for a compaction, without a time limit.
absl::Status StreamedCollection::ApplyAll(const std::vector<StreamMessage>& messages) {
  absl::Span<const StreamMessage> rest = messages;
  absl::Duration wait = kFirstApplyWait;
  while (!rest.empty() && !leaving()) {
    uint64_t next = 0;
    {
      const MutexLock lock(&mutex_);
      next = applied_sequence_ + 1;
    }
    if (rest.front().sequence != next) {
      return absl::FailedPreconditionError(
          Cat("collection ", name_, " has applied the messages up to sequence ", next - 1,
              ", but the stream's next one has ", rest.front().sequence,
              ": the messages between are gone; start this server from a newer snapshot of "
              "another one (maxsimctl snapshot)"));
    }
    // Apply takes only messages without gaps. So apply the messages before the first gap; the check above reports the
    // gap in the next round.
    size_t num_consecutive = 1;
    while (num_consecutive < rest.size() && rest[num_consecutive].sequence == next + num_consecutive) ++num_consecutive;
    const size_t num_readable = NumBeforeLaterVersion(rest.subspan(0, num_consecutive));
    if (num_readable == 0) {
      before_later_version_ = next - 1;
      return OfLaterVersion(name_, rest.front());
    }
    std::vector<StreamOutcome> outcomes;
    const absl::StatusOr<store::WriteResults> results = Apply(rest.subspan(0, num_readable), &outcomes);
    if (results.ok()) {
      NoteBlocked(absl::OkStatus());
      const StreamMessage& last = rest[results->results.size() - 1];
      last_message_ = {.sequence = last.sequence, .hash = MessageHash(last)};
      CountMessages(outcomes, *results);
      Resolve(rest.subspan(0, results->results.size()), *results);
      ResolveLate(rest.subspan(0, results->results.size()));
      rest.remove_prefix(results->results.size());
      wait = kFirstApplyWait;
      continue;
    }
    NoteBlocked(results.status());
    LookAtRetention();
    WaitUnlessLeaving(wait);
    wait = std::min(2 * wait, kMaxApplyWait);
    // Even if Apply failed, the log may have some of the messages. These count as applied.
    const uint64_t applied = position();
    size_t num_applied = 0;
    while (num_applied < rest.size() && rest[num_applied].sequence <= applied) ++num_applied;
    ResolveUnknown(rest.subspan(0, num_applied));
    rest.remove_prefix(num_applied);
    const MutexLock lock(&mutex_);
    applied_sequence_ = applied;
  }
  return absl::OkStatus();
}

absl::StatusOr<store::WriteResults> StreamedCollection::Apply(absl::Span<const StreamMessage> messages,
                                                              std::vector<StreamOutcome>* outcomes) {
  std::promise<absl::StatusOr<store::WriteResults>> answer;
  collection_->ApplyMessages(
      messages.front().sequence, Decode(messages, outcomes),
      [&](absl::StatusOr<store::WriteResults> results) { answer.set_value(std::move(results)); });
  return answer.get_future().get();
}

// Records the results of these messages, and answers each call whose last write is among them.
void StreamedCollection::Resolve(absl::Span<const StreamMessage> messages, const store::WriteResults& results) {
  const absl::Time now = MonotonicNow();
  std::vector<std::unique_ptr<PendingCall>> finished;
  {
    const MutexLock lock(&mutex_);
    applied_sequence_ = results.sequence;
    for (size_t idx = 0; idx < messages.size(); ++idx) {
      if (messages[idx].is_late) continue;  // ResolveLate
      const std::optional<PendingCalls::Found> found = pending_.Find(messages[idx].id);
      if (!found.has_value()) continue;
      if (!pending_.NoteApplied(*found, results.results[idx], messages[idx].sequence, now)) continue;
      finished.push_back(pending_.Take(*found->call));
      const WriteCall& call = finished.back()->call;
      queue_.Finish(call.client(), call.num_bytes);
    }
  }
  changed_.NotifyAll();  // Stop waits for this
  publisher_.Wake();
  for (std::unique_ptr<PendingCall>& call : finished) {
    store::WriteResults answer;
    answer.sequence = results.sequence;
    answer.results.reserve(call->writes.size());
    for (const PendingWrite& write : call->writes) answer.results.push_back(write.result);
    if (metrics_ != nullptr) {
      GroupCommit commit;
      commit.requests.push_back(
          {.until_durable = call->durable - call->call.arrived, .until_visible = now - call->call.arrived});
      metrics_->live().Observe(name_, commit);
    }
    call->call.done(std::move(answer));
  }
}

// Fails the calls of messages that came too late to be applied. Most of these calls have already failed, because they
// have the same time limit.
void StreamedCollection::ResolveLate(absl::Span<const StreamMessage> messages) {
  MutexLock lock(&mutex_);
  for (const StreamMessage& message : messages) {
    if (!message.is_late) continue;
    const std::optional<PendingCalls::Found> found = pending_.Find(message.id);
    if (!found.has_value()) continue;
    absl::Status status = absl::UnavailableError(
        Cat("document ", found->idx, " of the call was not written: ", stream_->server(),
            " took it after the time limit of the call; other documents of the call may have been written"));
    client::SetRetryAfter(kLateRetryDelay, status);
    if (found->call->writes.size() == 1) client::SetNothingWritten(status);
    Fail(*found->call, std::move(status), lock);
  }
}

// Fails the calls of messages that were applied, but whose outcomes are unknown.
void StreamedCollection::ResolveUnknown(absl::Span<const StreamMessage> messages) {
  MutexLock lock(&mutex_);
  for (const StreamMessage& message : messages) {
    const std::optional<PendingCalls::Found> found = pending_.Find(message.id);
    if (!found.has_value()) continue;
    Fail(*found->call,
         absl::UnavailableError(Cat("the log of collection ", name_,
                                    " failed while it took the writes; it has them now, "
                                    "but their outcomes are not known")),
         lock);
  }
}

}  // namespace maxsim::live
