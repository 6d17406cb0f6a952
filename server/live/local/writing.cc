// Queues the calls of a live collection, and runs and pauses its writer.
#include <utility>

#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "server/live/local/live_collection_impl.h"
#include "server/live/local/write_metrics.h"

namespace maxsim::live {
namespace {

// The limit for the bytes of a group. The log and the device get copies of the group. Copies of larger groups would
// be slower: they need fresh memory from the kernel each time, and do not fit into the caches.
constexpr uint64_t kMaxGroupBytes = uint64_t{8} << 20;

// If there is no memory for the list of calls, the next attempt is made after this time.
constexpr absl::Duration kNoMemoryPoll = absl::Milliseconds(10);

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
  bool is_served = true;  // If false, the call is not counted: the collection's metrics are or will be removed.
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
      writing_task_.Wake();
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
  const bool recover = MonotonicNow() >= writer_.retry_at();
  if (queue_.empty() && stopping_) {
    writer_ended_ = true;
    changed_.NotifyAll();
    return absl::InfiniteFuture();
  }
  if (queue_.empty() && !recover) return writer_.retry_at();
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
  if (recover) writer_.TryToRecover(&stop_);
  const absl::Time begin = MonotonicNow();
  if (!calls.empty()) writer_.Write(calls);
  // After a failure no call was written, so the time that these calls took must not count for the rate of writes.
  const absl::Duration took = writer_.has_failed() ? absl::ZeroDuration() : MonotonicNow() - begin;
  uint64_t work = 0;
  for (WriteCall& call : calls) {
    work += call.work();
    call.writes = {};  // freed outside of the lock
    call.done = nullptr;
  }
  lock.Lock();
  writing_ = false;
  for (const WriteCall& call : calls) queue_.Finish(call.client(), call.num_bytes);
  for (const WriteQueue::Expired& one : expired) queue_.Finish(one.call.client(), one.call.num_bytes);
  queue_.ObserveGroup(work, took);
  if (waiting_pauses_ > 0) changed_.NotifyAll();
  return queue_.empty() && !stopping_ ? writer_.retry_at() : absl::InfinitePast();
}

void LiveCollection::AnswerExpired(std::vector<WriteQueue::Expired>& expired) {
  for (WriteQueue::Expired& one : expired) {
    Guarded([&] {
      CountRefused(metrics_, request_.name, one.call);
      return absl::OkStatus();
    }).IgnoreError();
    one.call.done(std::move(one.reason));
    one.call.done = nullptr;
  }
}

LiveCollection::WriterPause::WriterPause(LiveCollection* live) : live_(live) {
  MutexLock lock(&live_->mutex_);
  ++live_->waiting_pauses_;
  while (live_->writing_ || live_->paused_) live_->changed_.Wait(lock);
  --live_->waiting_pauses_;
  live_->paused_ = true;
}

LiveCollection::WriterPause::~WriterPause() {
  {
    const MutexLock lock(&live_->mutex_);
    live_->paused_ = false;
  }
  live_->changed_.NotifyAll();
  live_->writing_task_.Wake();
}

}  // namespace maxsim::live
