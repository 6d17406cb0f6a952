// Sends the writes of calls to the stream.
#include <algorithm>
#include <utility>

#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "client/error_details.h"
#include "client/status.h"
#include "server/live/local/write_metrics.h"
#include "server/live/stream/streamed_collection.h"
#include "server/observability/metrics.h"

namespace maxsim::live {
namespace {

// The maximum number of bytes that are sent and not yet acknowledged. It keeps a slow server from being flooded. With
// a server that is 100 ms away it still allows 160 MB/s.
constexpr uint64_t kMaxBytesInFlight = uint64_t{16} << 20;

// The maximum number of bytes of calls that one step takes from the queue.
constexpr uint64_t kMaxTakenBytes = uint64_t{8} << 20;

// A message that was not acknowledged is sent again after a quarter of nats.timeout.
constexpr int kSendAgainParts = 4;

// A message is sent again after this time if the server could not pass it on because the stream has no leader.
constexpr absl::Duration kNoResponderDelay = absl::Milliseconds(100);

// The rate at which calls leave the queue is measured over at least this time, because the first calls leave in a
// burst.
constexpr absl::Duration kRateInterval = absl::Milliseconds(200);

// How often overdue calls and unacknowledged messages are looked for.
constexpr absl::Duration kCheckInterval = absl::Milliseconds(20);

constexpr absl::Duration kUnavailableRetryDelay = absl::Seconds(1);

absl::Status RetryLater(absl::Status status, absl::Duration delay) {
  client::SetRetryAfter(delay, status);
  return status;
}

}  // namespace

// If writes are currently not accepted or not applied, returns the reason. Otherwise returns OK.
absl::Status StreamedCollection::Refusal() const {
  if (!blocked_.ok()) return blocked_;
  return lost_;
}

void StreamedCollection::Submit(std::vector<store::Write> writes, const store::WriteCaller& caller, Done done) {
  WriteCall call{.writes = std::move(writes), .done = std::move(done), .arrived = MonotonicNow(), .caller = caller};
  for (const store::Write& write : call.writes) call.num_bytes += write.num_bytes();
  absl::Status refused;
  bool is_served = true;
  {
    const MutexLock lock(&mutex_);
    is_served = served_ && !stopping_;
    if (stopping_) {
      refused = absl::UnavailableError(Cat("collection ", name_, " is being unloaded"));
    } else if (!served_) {
      refused = absl::UnavailableError(Cat("collection ", name_, " is still loading"));
    } else if (!blocked_.ok()) {
      refused = blocked_;
    } else if (!absl::IsUnavailable(lost_) && !lost_.ok()) {
      refused = lost_;  // it is not this collection's stream, so waiting would not help
    } else {
      refused = queue_.Admit(call, call.arrived);
    }
    if (refused.ok()) {
      queue_.Push(std::move(call));
      publisher_.Wake();
      return;
    }
  }
  if (is_served) CountRefused(metrics_, name_, call);
  client::SetNothingWritten(refused);
  call.done(std::move(refused));
}

// Does one step of the publisher. Returns the time at which the next step is due.
absl::Time StreamedCollection::PublishOnce() {
  MutexLock lock(&mutex_);
  publishing_ = true;
  bool worked = false;
  // If memory runs out, the step ends early and is repeated. Code that runs while the lock is released throws no
  // exception.
  const absl::Status status = Guarded([&] {
    mutex_.AssertHeld();
    worked = TakeCalls(lock);
    while (SendNext(lock)) worked = true;
    if (MonotonicNow() >= next_check_) {
      RefuseExpired(lock);
      FailOverdue(lock);
      SendAgain(lock);
      next_check_ = MonotonicNow() + kCheckInterval;
    }
    return absl::OkStatus();
  });
  publishing_ = false;
  if (queue_.empty() && pending_.empty()) {
    if (stopping_) changed_.NotifyAll();
    return absl::InfiniteFuture();
  }
  return worked && status.ok() ? absl::InfinitePast() : MonotonicNow() + kCheckInterval;
}

// Tells the queue the rate at which calls are taken from it. The queue uses the rate to estimate how long a new call
// will wait. Only counts the time in which calls were waiting.
void StreamedCollection::ObserveRate(absl::Time now) {
  if (!is_backlogged_) {
    rate_since_ = now;
    taken_work_ = 0;
  } else if (now - rate_since_ >= kRateInterval) {
    queue_.ObserveRate(taken_work_, now - rate_since_);
    rate_since_ = now;
    taken_work_ = 0;
  }
}

// Answers each call with its reason and the mark that nothing was written: none of the calls has sent a message. The
// caller must not hold the lock.
void StreamedCollection::Refuse(std::vector<WriteQueue::Expired> expired) {
  for (WriteQueue::Expired& one : expired) {
    CountRefused(metrics_, name_, one.call);
    client::SetNothingWritten(one.reason);
    one.call.done(std::move(one.reason));
  }
}

// Refuses calls that have waited too long in the queue because too many bytes were on their way to the stream.
void StreamedCollection::RefuseExpired(MutexLock& lock) {
  if (queue_.empty()) return;
  std::vector<WriteQueue::Expired> expired;
  queue_.TakeExpired(MonotonicNow(), &expired);
  if (expired.empty()) return;
  for (const WriteQueue::Expired& one : expired) queue_.Finish(one.call.client(), one.call.num_bytes);
  lock.Unlock();
  Refuse(std::move(expired));
  lock.Lock();
}

// Takes calls from the queue and encodes their messages. Returns whether it could take any.
bool StreamedCollection::TakeCalls(MutexLock& lock) {
  if (queue_.empty() || pending_.bytes_in_flight() > kMaxBytesInFlight) return false;
  std::vector<WriteQueue::Expired> expired;
  const absl::Time now = MonotonicNow();
  ObserveRate(now);
  std::vector<WriteCall> calls = queue_.TakeGroup(kMaxTakenBytes, now, &expired);
  for (const WriteCall& call : calls) taken_work_ += call.work();
  for (const WriteQueue::Expired& one : expired) queue_.Finish(one.call.client(), one.call.num_bytes);
  is_backlogged_ = !queue_.empty();
  lock.Unlock();
  Refuse(std::move(expired));
  std::vector<std::unique_ptr<PendingCall>> encoded;
  std::vector<std::pair<uint64_t, uint64_t>> failed;  // client and bytes
  failed.reserve(calls.size());
  for (WriteCall& call : calls) {
    const std::pair<uint64_t, uint64_t> client_and_bytes(call.client(), call.num_bytes);
    const absl::Status status = Guarded([&] {
      encoded.reserve(calls.size());
      encoded.push_back(Encode(call));
      return absl::OkStatus();
    });
    if (status.ok()) continue;
    CountRefused(metrics_, name_, call);
    absl::Status error = RetryLater(status, kUnavailableRetryDelay);
    client::SetNothingWritten(error);
    call.done(std::move(error));
    failed.push_back(client_and_bytes);
  }
  lock.Lock();
  for (const auto& [client, num_bytes] : failed) queue_.Finish(client, num_bytes);
  for (std::unique_ptr<PendingCall>& call : encoded) pending_.Add(std::move(call));
  return true;
}

// Encodes the call's messages and moves the call into the result. If memory runs out, the call stays as it was.
std::unique_ptr<PendingCall> StreamedCollection::Encode(WriteCall& call) const {
  auto pending = std::make_unique<PendingCall>();
  pending->deadline = std::min(call.arrived + options_.nats.timeout, call.caller.deadline);
  pending->writes.resize(call.writes.size());
  for (size_t idx = 0; idx < call.writes.size(); ++idx) {
    pending->writes[idx].slot = SlotOf(call.writes[idx], rules_.format.id_type);
    pending->writes[idx].data = std::make_shared<const std::string>(EncodeMessage(call.writes[idx], rules_));
  }
  pending->call = std::move(call);
  // The messages have copies of the rows and payloads, so the originals can be freed.
  for (store::Write& write : pending->call.writes) {
    write.rows = std::vector<std::byte>();
    write.payload = std::string();
  }
  return pending;
}

// The error does not name the server of the stream: tenants of a router see it, too.
absl::Status StreamedCollection::CheckSize(const PendingCall& call) const {
  const auto limit = static_cast<uint64_t>(stream_->max_message_bytes());
  for (size_t idx = 0; idx < call.writes.size(); ++idx) {
    const uint64_t num_bytes = call.writes[idx].data->size();
    if (num_bytes <= limit) continue;
    return client::InvalidField(Cat("documents[", idx, "]"),
                                Cat("is ", num_bytes, " bytes as a message, but a message may have at most ", limit,
                                    " (max_payload of NATS); nothing of the call was written"),
                                {limit, num_bytes});
  }
  return absl::OkStatus();
}

// Sends the next message that was not sent yet, in the order of the calls. Returns whether there was such a message.
bool StreamedCollection::SendNext(MutexLock& lock) {
  if (!following_ || applied_sequence_ < catch_up_sequence_) return false;
  if (pending_.bytes_in_flight() > kMaxBytesInFlight) return false;
  PendingCall* const next = pending_.FindUnsent();
  if (next == nullptr) return false;
  if (next->deadline <= MonotonicNow()) {
    FailOverdue(lock);
    return true;
  }
  if (next->num_sent == 0) {
    if (absl::Status status = CheckSize(*next); !status.ok()) {
      Fail(*next, std::move(status), lock);
      return true;
    }
  }
  if (pending_.HasUnansweredBefore(*next, next->num_sent)) return false;
  Send(*next, next->num_sent, lock);
  return true;
}

// Sends a message, which expires when the call fails. So once the call's client has an error, the message can no longer
// take effect, however long it is still under way. Releases the lock while it sends, so the call may be deleted when
// this returns.
void StreamedCollection::Send(PendingCall& call, size_t idx, MutexLock& lock) {
  const std::string id = pending_.IdOf(call.first_number + idx);
  const int32_t slot = call.writes[idx].slot;
  const std::shared_ptr<const std::string> data = call.writes[idx].data;
  const absl::Time expires = call.deadline;
  pending_.NoteSent(call, idx, MonotonicNow());
  lock.Unlock();
  // If there is no connection, the message is treated like one that was lost by the network.
  Guarded([&] { return stream_->Publish(slot, id, *data, expires); }).IgnoreError();
  lock.Lock();
}

// Sends the messages that the stream has not acknowledged in time again. The stream drops those that it already has.
void StreamedCollection::SendAgain(MutexLock& lock) {
  if (!following_) return;
  const absl::Time before = MonotonicNow() - options_.nats.timeout / kSendAgainParts;
  while (true) {
    PendingCall* found = nullptr;
    std::optional<size_t> idx;
    pending_.Visit([&](PendingCall& call) {
      idx = FindUnanswered(call, before);
      if (idx.has_value()) found = &call;
      return found == nullptr;
    });
    if (found == nullptr) return;
    Send(*found, *idx, lock);
  }
}

absl::Status StreamedCollection::Overdue(const PendingCall& call) const {
  const std::string within = call.deadline < call.call.caller.deadline
                                 ? Cat(" within nats.timeout, which is ", absl::FormatDuration(options_.nats.timeout))
                                 : std::string(" before the call's deadline");
  if (call.num_in_stream == call.writes.size()) {
    return absl::UnavailableError(Cat("the stream has the writes, but collection ", name_, " has not applied them",
                                      within, blocked_.ok() ? "" : ": ", std::string(blocked_.message())));
  }
  if (call.num_sent > 0) {
    return absl::UnavailableError(
        Cat(stream_->server(), " has not acknowledged the writes", within, ": all, some or none of them were written"));
  }
  std::string reason = std::string(lost_.message());
  if (lost_.ok()) {
    reason = applied_sequence_ < catch_up_sequence_
                 ? Cat("collection ", name_, " has only applied the stream's messages up to ", applied_sequence_,
                       " of ", catch_up_sequence_)
                 : Cat(stream_->server(), " is slow");
  }
  return absl::UnavailableError(Cat("nothing of the call was written", within, ": ", reason));
}

void StreamedCollection::FailOverdue(MutexLock& lock) {
  const absl::Time now = MonotonicNow();
  while (true) {
    PendingCall* overdue = nullptr;
    pending_.Visit([&](PendingCall& call) {
      if (call.deadline <= now) overdue = &call;
      return overdue == nullptr;
    });
    if (overdue == nullptr) return;
    absl::Status error = RetryLater(Overdue(*overdue), kUnavailableRetryDelay);
    if (overdue->num_sent == 0) client::SetNothingWritten(error);
    Fail(*overdue, std::move(error), lock);
  }
}

void StreamedCollection::OnAcknowledged(std::string_view id, const absl::StatusOr<uint64_t>& sequence) {
  const absl::Time now = MonotonicNow();
  MutexLock lock(&mutex_);
  const std::optional<PendingCalls::Found> found = pending_.Find(id);
  if (!found.has_value()) return;
  if (sequence.ok()) {
    if (metrics_ != nullptr && found->call->writes[found->idx].sequence == 0) {
      metrics_->live().ObservePublish(name_, now - found->call->writes[found->idx].sent);
    }
    pending_.NoteInStream(*found, *sequence, now);
  } else if (absl::IsUnavailable(sequence.status())) {
    found->call->writes[found->idx].sent = now - options_.nats.timeout / kSendAgainParts + kNoResponderDelay;
  } else {
    const bool is_first = found->call->num_in_stream == 0;
    Fail(*found->call,
         absl::Status(sequence.status().code(),
                      Cat(std::string(sequence.status().message()),
                          is_first ? "" : "; some of the call's writes may have been written")),
         lock);
  }
  publisher_.Wake();
}

void StreamedCollection::Fail(const PendingCall& call, absl::Status status, MutexLock& lock) {
  std::unique_ptr<PendingCall> taken = pending_.Take(call);
  queue_.Finish(taken->call.client(), taken->call.num_bytes);
  lock.Unlock();
  CountRefused(metrics_, name_, taken->call);
  taken->call.done(std::move(status));
  lock.Lock();
  changed_.NotifyAll();
}

}  // namespace maxsim::live
