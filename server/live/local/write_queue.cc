#include "server/live/local/write_queue.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/text.h"
#include "base/units.h"
#include "client/status.h"

namespace maxsim::live {
namespace {

constexpr absl::Duration kMinRetryDelay = absl::Milliseconds(20);
constexpr absl::Duration kMaxRetryDelay = absl::Seconds(5);

// The fixed work per write, in bytes. Logging and applying 100,000 deletes of 350 bytes each takes about as long as
// upserts of 400 MB in total.
constexpr uint64_t kWorkPerWrite = 4096;

// The largest quantum of a client's turn (deficit_round_robin.h). It is small, so that a client's small calls wait for
// only one large call of another client, even if each large call takes a second.
constexpr uint64_t kMaxQuantum = uint64_t{1} << 20;

// The largest number of calls in a group. Memory for a list of them is reserved before the first call is taken.
constexpr size_t kMaxGroupCalls = 4096;

// A client may hold at most this many times the free part of max_bytes. So if one client fills its share, a quarter
// stays free, and if two clients do, a seventh. (A. Choudhury, E. Hahne, "Dynamic queue length thresholds for
// shared-memory packet switches", 1998.)
constexpr uint64_t kShareOfFree = 3;

// A call is admitted if its estimated wait is at most this share of max_queue_time. The rest is a margin for calls of
// other clients that arrive later and go first. With this margin, nearly all admitted calls are written in time.
constexpr double kAdmittedShare = 0.9;

}  // namespace

uint64_t WriteCall::work() const { return num_bytes + kWorkPerWrite * writes.size(); }

WriteQueue::WriteQueue(std::string name, const WriteQueueLimits& limits)
    : name_(std::move(name)),
      max_bytes_(static_cast<uint64_t>(std::max<int64_t>(limits.max_bytes, 0))),
      max_queue_time_(limits.max_queue_time),
      waiting_(kMaxQuantum) {}

absl::Status WriteQueue::Refusal(const std::string& reason, absl::Duration retry_after) const {
  absl::Status status = absl::ResourceExhaustedError(Cat("too many writes to collection ", name_, " wait: ", reason));
  client::SetRetryAfter(std::clamp(retry_after, kMinRetryDelay, kMaxRetryDelay), status);
  return status;
}

// Estimates how long the call would wait if it arrived now and no call came after it. The wait has three parts: the
// rest of the group that is being written, the client's own earlier calls, and the turns of other clients between
// these.
absl::Duration WriteQueue::WaitOf(const WriteCall& call, absl::Time now) const {
  const uint64_t mine = waiting_.work_of(call.client());
  const uint64_t others = waiting_.num_clients() - (waiting_.HasJobsOf(call.client()) ? 1 : 0);
  const uint64_t in_turns = SaturatingAdd(mine, SaturatingMultiply(others, SaturatingAdd(mine, call.work())));
  const absl::Duration rest = group_time_.Of(taken_work_) - (now - taken_);
  return group_time_.Of(std::min(waiting_.work(), in_turns)) + std::max(rest, absl::ZeroDuration());
}

absl::Status WriteQueue::Admit(const WriteCall& call, absl::Time now) const {
  if (num_bytes_ == 0) return absl::OkStatus();
  const absl::Duration half = group_time_.Of(waiting_.work() / 2);
  if (num_bytes_ > max_bytes_ || call.num_bytes > max_bytes_ - num_bytes_) {
    return Refusal(Cat(FormatBytesExactly(num_bytes_), " and this call's ", FormatBytesExactly(call.num_bytes),
                       " are more than live.max_queued_bytes, which is ", FormatBytesExactly(max_bytes_)),
                   half);
  }
  const auto held = bytes_by_client_.find(call.client());
  const uint64_t mine = held == bytes_by_client_.end() ? 0 : held->second;
  if (mine > 0 && mine + call.num_bytes > kShareOfFree * (max_bytes_ - num_bytes_)) {
    return Refusal(Cat(FormatBytesExactly(mine), " are this client's, and with this call's ",
                       FormatBytesExactly(call.num_bytes), " they would be more than ", kShareOfFree,
                       " times what is free of live.max_queued_bytes, which is ", FormatBytesExactly(max_bytes_)),
                   half);
  }
  const absl::Duration wait = WaitOf(call, now);
  if (max_queue_time_ > absl::ZeroDuration() && wait > max_queue_time_ * kAdmittedShare) {
    return Refusal(
        Cat("this call would wait for about ", absl::FormatDuration(absl::Ceil(wait, absl::Milliseconds(1))),
            ", which is more than nine tenths of live.max_queue_time, ", absl::FormatDuration(max_queue_time_)),
        wait - max_queue_time_ * kAdmittedShare);
  }
  return absl::OkStatus();
}

void WriteQueue::Push(WriteCall call) {
  const uint64_t num_bytes = call.num_bytes;
  uint64_t& held = bytes_by_client_[call.client()];
  waiting_.Push(std::move(call));
  held += num_bytes;
  num_bytes_ += num_bytes;
  ++num_waiting_;
}

bool WriteQueue::MayWait(const WriteCall& call, absl::Time now) const {
  if (call.caller.deadline <= now) return false;
  // Messages of a stream must be applied in order, one call after another, so they never expire.
  return max_queue_time_ <= absl::ZeroDuration() || call.first_sequence != 0 || now - call.arrived < max_queue_time_;
}

absl::Status WriteQueue::CheckMayWait(const WriteCall& call, absl::Time now) const {
  if (MayWait(call, now)) return absl::OkStatus();
  if (call.caller.deadline <= now) {
    return absl::DeadlineExceededError("the deadline passed before the call was written; nothing was written");
  }
  return Refusal(Cat("this call has waited for ", absl::FormatDuration(max_queue_time_),
                     " (live.max_queue_time), and nothing of it was written"),
                 kMinRetryDelay);
}

std::vector<WriteCall> WriteQueue::TakeGroup(uint64_t max_bytes, absl::Time now, std::vector<Expired>* expired) {
  std::vector<WriteCall> group;
  const size_t max_calls = std::min(num_waiting_, kMaxGroupCalls);
  group.reserve(max_calls);
  expired->reserve(expired->size() + max_calls);
  const size_t num_expired = expired->size();
  uint64_t bytes = 0;
  taken_work_ = 0;
  taken_ = now;
  waiting_.BeginScan();
  for (size_t scanned = 0; scanned < max_calls; ++scanned) {
    const WriteCall& next = *waiting_.Current();
    absl::Status may_wait;
    try {
      may_wait = CheckMayWait(next, now);
    } catch (const std::bad_alloc&) {
      // There is no memory for this call's refusal, so the call stays in the queue. If other calls were already
      // taken, this function must not throw, because they would be lost.
      waiting_.EndScan();
      if (group.empty() && expired->size() == num_expired) throw;
      return group;
    }
    if (!may_wait.ok()) {
      expired->push_back({waiting_.Drop(), std::move(may_wait)});
      --num_waiting_;
      continue;
    }
    if (!group.empty() && bytes + next.num_bytes > max_bytes) break;
    bytes += next.num_bytes;
    taken_work_ += next.work();
    group.push_back(waiting_.Take());
    --num_waiting_;
  }
  waiting_.EndScan();
  return group;
}

void WriteQueue::TakeExpired(absl::Time now, std::vector<Expired>* expired) {
  size_t count = 0;
  std::vector<WriteCall> none;
  waiting_.RemoveIf(
      [&](const WriteCall& call) {
        count += MayWait(call, now) ? 0 : 1;
        return false;
      },
      &none);
  if (count == 0) return;
  std::vector<WriteCall> removed;
  removed.reserve(count);
  expired->reserve(expired->size() + count);
  waiting_.RemoveIf([&](const WriteCall& call) { return !MayWait(call, now); }, &removed);
  num_waiting_ -= count;
  for (WriteCall& call : removed) {
    absl::Status reason(absl::StatusCode::kResourceExhausted, "");  // an empty message, because memory has run out
    try {
      reason = CheckMayWait(call, now);
    } catch (const std::bad_alloc&) {
    }
    expired->push_back({std::move(call), std::move(reason)});
  }
}

void WriteQueue::Finish(uint64_t client, uint64_t num_bytes) {
  num_bytes_ -= num_bytes;
  const auto held = bytes_by_client_.find(client);
  held->second -= num_bytes;
  if (held->second == 0) bytes_by_client_.erase(held);
}

void WriteQueue::ObserveGroup(uint64_t work, absl::Duration took) {
  taken_work_ = 0;
  group_time_.Observe(work, took);
}

void WriteQueue::ObserveRate(uint64_t work, absl::Duration took) {
  taken_work_ = 0;
  group_time_.ObserveRate(work, took);
}

}  // namespace maxsim::live
