#include "server/cluster/groups/group_call.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "server/cluster/observed/attempt_spans.h"
#include "server/service/call/call_spans.h"

namespace maxsim::cluster {
namespace {

// The retry delay that a caller is told when the group has too many calls in flight.
constexpr absl::Duration kTooManyCallsDelay = absl::Milliseconds(50);

// The longest time for which a full replica gets no calls. Even a replica that asks for a longer delay may have room
// for smaller requests before.
constexpr absl::Duration kMaxFullTime = absl::Seconds(1);

// A replica counts as stalled if it has answered no call for ten times the group's latency percentile, within these
// bounds. The minimum is for groups whose calls take microseconds. The maximum also applies to groups without a
// measured percentile.
constexpr int kSilencePercentiles = 10;
constexpr absl::Duration kMinSilence = absl::Milliseconds(100);
constexpr absl::Duration kMaxSilence = absl::Seconds(5);

// If none of the replicas to which a read was sent can be reached, the read ends with UNAVAILABLE after this time, or
// after Silence() if that is shorter. Until then an answer that was under way may still arrive.
constexpr absl::Duration kLostPatience = absl::Seconds(1);

// How often a slow call is checked (GroupCall::Look).
constexpr absl::Duration kLookInterval = absl::Milliseconds(100);

// A check may be late by 1 / kLookSlack of its delay, so that the timer can wake once for many calls.
constexpr int kLookSlack = 16;

absl::Status Full(const Group& group, absl::Duration retry_after, const std::string& why) {
  absl::Status status = absl::ResourceExhaustedError(absl::StrCat("group ", group.name(), " ", why));
  client::SetRetryAfter(retry_after, status);
  return status;
}

absl::Status Draining() { return absl::UnavailableError("the server is draining"); }

class GroupCall : public EndableCall, public std::enable_shared_from_this<GroupCall> {
 public:
  GroupCall(const CallEnvironment& environment, CallTarget target, const GroupCallOptions& options, SendAttempt send,
            absl::AnyInvocable<void(absl::Status, int)> done)
      : environment_(environment),
        target_(std::move(target)),
        options_(options),
        send_(std::move(send)),
        done_(std::move(done)) {}

  // Answers a call whose last callback was lost because memory ran out, so that every call is answered.
  ~GroupCall() override {
    if (!begun_ || done_ == nullptr) return;
    target_.group->EndCall();
    if (environment_.calls != nullptr) environment_.calls->Remove(this);
    done_(NoMemory(), 0);
  }

  void Start() {
    Group& group = *target_.group;
    if (target_.replicas.empty()) {
      return Refuse(
          absl::UnavailableError(absl::StrCat("no replica of group ", group.name(), " can answer this call")));
    }
    const absl::Time now = MonotonicNow();
    if (const std::optional<absl::Time> until = FullUntil(now)) {
      return Refuse(Full(group, *until - now, "is full"));
    }
    if (!group.TryBeginCall()) {
      return Refuse(Full(group, kTooManyCallsDelay,
                         absl::StrCat("has ", group.max_calls_in_flight(),
                                      " calls in flight, which is the limit (cluster.max_calls_in_flight)")));
    }
    begin_ = now;
    if (environment_.calls != nullptr && !environment_.calls->Add(shared_from_this())) {
      group.EndCall();
      return Refuse(Draining());
    }
    begun_ = true;
    group.EarnHedge();
    Protected([&] {
      TryAttempt();
      if (options_.may_hedge && target_.replicas.size() > 1) {
        ScheduleHedge();
      } else if (options_.may_repeat || options_.cancelled != nullptr) {
        LookIn(kLookInterval, begin_);
      }
    });
  }

  void End() override { Finish(Draining(), 0, MonotonicNow()); }

 private:
  struct Attempt {
    std::shared_ptr<Replica> replica;
    std::function<void()> cancel;
    bool ended = false;
    uint64_t clock_id = 0;    // Replica::clock_id() when the attempt began
    tracing::Span span = {};  // it ends with the attempt, or with the call
  };

  // Runs `work`, and ends the call if memory runs out in it.
  template <typename Work>
  void Protected(Work work) {
    const absl::Status status = Guarded([&] {
      work();
      return absl::OkStatus();
    });
    if (!status.ok()) Finish(status, 0, MonotonicNow());
  }

  // If all replicas are full, returns the first time at which one of them may get a call again. Otherwise returns
  // nullopt.
  std::optional<absl::Time> FullUntil(absl::Time now) const {
    absl::Time first = absl::InfiniteFuture();
    for (const std::shared_ptr<Replica>& replica : target_.replicas) {
      first = std::min(first, replica->health().full_until());
    }
    return first > now ? std::optional<absl::Time>(first) : std::nullopt;
  }

  // Asks another replica. Returns false if all have been asked, or if the call has ended.
  bool TryAttempt(bool is_hedge = false) {
    int number = 0;
    std::shared_ptr<Replica> replica;
    tracing::SpanParent span;
    {
      const MutexLock lock(&mutex_);
      if (finished_) return false;
      std::vector<const Replica*> tried;
      tried.reserve(attempts_.size());
      for (const Attempt& attempt : attempts_) tried.push_back(attempt.replica.get());
      replica =
          ChooseReplica(target_.replicas, tried, MonotonicNow(), target_.group->NextTurn(), target_.group->own_zone());
      if (replica == nullptr) return false;
      number = static_cast<int>(attempts_.size());
      attempts_.push_back({.replica = replica, .cancel = nullptr});
      attempts_.back().clock_id = replica->clock_id();
      attempts_.back().span =
          service::StartGroupAttempt(options_.span, target_.group->name(), replica->target(), number, is_hedge);
      span = attempts_.back().span.AsParent();
      ++num_in_flight_;
    }
    replica->BeginCall();
    std::function<void()> cancel =
        send_(*replica, number, span,
              [call = shared_from_this(), number](const absl::Status& status) { call->OnEnd(number, status); });
    {
      const MutexLock lock(&mutex_);
      if (!finished_) {
        attempts_[static_cast<size_t>(number)].cancel = std::move(cancel);
        return true;
      }
    }
    cancel();  // too late
    return true;
  }

  void ScheduleHedge() {
    const absl::Duration delay = target_.group->latencies().percentile();
    LookIn(delay == absl::InfiniteDuration() ? kLookInterval : delay, begin_);
  }

  void LookIn(absl::Duration delay, absl::Time now) {
    environment_.timer->At(now + delay, delay / kLookSlack, [weak = weak_from_this()] {
      const std::shared_ptr<GroupCall> call = weak.lock();
      if (call != nullptr) call->Protected([&] { call->Look(); });
    });
  }

  // Returns how long a replica with calls in flight may go without an answer before it counts as stalled.
  absl::Duration Silence() const {
    const absl::Duration percentile = target_.group->latencies().percentile();
    return std::clamp(kSilencePercentiles * percentile, kMinSilence, kMaxSilence);
  }

  // Ends the call if its client has gone away. Otherwise asks another replica if that is due, and schedules the next
  // check.
  void Look() {
    {
      const MutexLock lock(&mutex_);
      if (finished_) return;
    }
    const absl::Time now = MonotonicNow();
    if (options_.cancelled != nullptr && *options_.cancelled) {
      return Finish(absl::CancelledError("the client cancelled the call"), 0, now);
    }
    if (options_.may_repeat) AskAnotherIfDue(now);
    if (const absl::Status status = ErrorWhereNobodyAnswers(now); !status.ok()) return Finish(status, 0, now);
    LookIn(kLookInterval, now);
  }

  // Returns whether a call that waits for the replica may wait in vain: it is ejected, or leaves polls unanswered.
  static bool IsSuspect(const Replica& replica, absl::Time now) {
    return replica.health().is_ejected(now) || replica.is_silent(now) || !replica.poll_status().ok();
  }

  // Returns whether a replica that was not asked yet is well: it answers polls, is not full, and answers calls if it
  // has any.
  bool AnotherIsWell(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const std::shared_ptr<Replica>& replica : target_.replicas) {
      bool has_call = false;
      for (const Attempt& attempt : attempts_) has_call |= attempt.replica == replica;
      if (!has_call && !IsSuspect(*replica, now) && replica->health().full_until() <= now &&
          (replica->calls_in_flight() == 0 || !replica->health().stands_still(now, Silence(), begin_))) {
        return true;
      }
    }
    return false;
  }

  // Sends the call to one more replica if each replica that has it and has not answered is suspect, or if the first one
  // has stalled while another is well. This takes nothing from the budget for hedges, because the first replica may
  // never answer. Also sends it to one more replica if the call may hedge and the budget allows it.
  void AskAnotherIfDue(absl::Time now) {
    bool nobody_answers = true;
    {
      const MutexLock lock(&mutex_);
      if (num_in_flight_ == 0) return;  // OnEnd is about to ask another one.
      if (attempts_.size() == target_.replicas.size()) return;
      // Leaves a stalled replica only once per call, so that a group of slow replicas gets a call at most twice for
      // this reason. Does not leave it if the call may not hedge: such calls may be large, so a long wait says nothing.
      const bool may_leave = options_.may_hedge && attempts_.size() == 1 && AnotherIsWell(now);
      for (const Attempt& attempt : attempts_) {
        if (attempt.ended || IsSuspect(*attempt.replica, now)) continue;
        if (may_leave && attempt.replica->health().stands_still(now, Silence(), begin_)) continue;
        nobody_answers = false;
      }
    }
    const bool measured = target_.group->latencies().percentile() < absl::InfiniteDuration();
    if (nobody_answers || (options_.may_hedge && measured && target_.group->TakeHedge())) {
      if (TryAttempt(/*is_hedge=*/true) && environment_.metrics != nullptr) {
        environment_.metrics->CountHedge(target_.group->name());
      }
    }
  }

  void Note(Replica& replica, const absl::Status& status, absl::Time now) {
    if (IsFault(status)) return replica.health().CountFailure(now);
    // A call with a short deadline may expire on a healthy replica. So the timeout counts as a failure only if this
    // call took at least Silence(), and the replica has answered no call for that long.
    if (absl::IsDeadlineExceeded(status)) return replica.health().CountOvertaken(now, Silence(), begin_);
    const std::optional<absl::Duration> full = client::RetryAfter(status);
    if (options_.full_for_all && absl::IsResourceExhausted(status) && full.has_value()) {
      replica.health().SetFullUntil(now + std::min(*full, kMaxFullTime));
    }
    replica.health().CountSuccess(now);
  }

  void OnEnd(int number, const absl::Status& status) {
    const absl::Time now = MonotonicNow();
    std::shared_ptr<Replica> replica;
    bool is_late = false;
    uint64_t clock_id = 0;
    {
      const MutexLock lock(&mutex_);
      Attempt& attempt = attempts_[static_cast<size_t>(number)];
      attempt.ended = true;
      clock_id = attempt.clock_id;
      service::EndCall(status, attempt.span);
      replica = attempt.replica;
      --num_in_flight_;
      is_late = finished_;
      if (come_back_.ok() && client::RetryAfter(status).has_value()) come_back_ = status;
    }
    replica->EndCall();
    // The attempt was cancelled by this call, so its outcome says nothing about the replica.
    if (is_late) return;
    Note(*replica, status, now);
    if (status.ok()) {
      target_.group->latencies().Add(now - begin_);
      return Finish(status, number, now);
    }
    const bool may_repeat = options_.may_repeat || IsSafeToRepeat(status);
    if (!may_repeat && MayStillHappen(status)) return FinishOnceExpired(status, number, replica, clock_id);
    if (!may_repeat || !MayAskAnother(status) || now >= options_.deadline) return Finish(status, number, now);
    if (environment_.metrics != nullptr) environment_.metrics->CountRetry(target_.group->name());
    Protected([&] {
      if (!TryAttempt() && !HasAttemptInFlight()) Finish(ErrorOfAll(status), number, now);
    });
  }

  // Ends a write that a lost replica may still carry out, but only once that is impossible: the write has expired, or
  // the replica was restarted. Ends it at once if the replica has told no clock: then the write cannot expire.
  void FinishOnceExpired(const absl::Status& status, int number, const std::shared_ptr<Replica>& replica,
                         uint64_t clock_id) {
    const absl::Time now = MonotonicNow();
    const bool can_expire = clock_id != 0 && options_.expires < absl::InfiniteFuture();
    if (!can_expire || now >= options_.expires || replica->clock_id() != clock_id) return Finish(status, number, now);
    {
      const MutexLock lock(&mutex_);
      if (finished_) return;
    }
    Protected([&] {
      environment_.timer->At(std::min(options_.expires, now + kLookInterval), absl::ZeroDuration(),
                             [call = shared_from_this(), status, number, replica, clock_id] {
                               call->FinishOnceExpired(status, number, replica, clock_id);
                             });
    });
  }

  // Returns the error of the whole call after the last replica has failed with `last`. Prefers an error with a retry
  // delay, whichever replica returned it, because that replica will be able to answer after the delay.
  absl::Status ErrorOfAll(const absl::Status& last) {
    const MutexLock lock(&mutex_);
    return come_back_.ok() || client::RetryAfter(last).has_value() ? last : come_back_;
  }

  // Returns the error with which a read ends although replicas have not answered it. There are two such cases. If one
  // replica returned an error with a retry delay and all others are stalled, returns that error: a client that retries
  // gets an answer. If none of the others can be reached, returns that error or UNAVAILABLE. Returns OK otherwise, and
  // for a write: a stalled replica may still carry it out.
  absl::Status ErrorWhereNobodyAnswers(absl::Time now) {
    const MutexLock lock(&mutex_);
    if (!options_.may_repeat || num_in_flight_ == 0 || attempts_.size() < target_.replicas.size()) {
      return absl::OkStatus();
    }
    bool all_stalled = !come_back_.ok();
    bool all_lost = now - begin_ >= std::min(Silence(), kLostPatience);
    for (const Attempt& attempt : attempts_) {
      if (attempt.ended) continue;
      all_stalled = all_stalled && attempt.replica->health().stands_still(now, Silence(), begin_);
      all_lost = all_lost && attempt.replica->is_lost();
    }
    if (!all_stalled && !all_lost) return absl::OkStatus();
    for (const Attempt& attempt : attempts_) {
      if (!attempt.ended) attempt.replica->health().CountOvertaken(now, Silence(), begin_);
    }
    if (!come_back_.ok()) return come_back_;
    return absl::UnavailableError(absl::StrCat("no replica of group ", target_.group->name(), " can be reached"));
  }

  bool HasAttemptInFlight() {
    const MutexLock lock(&mutex_);
    return num_in_flight_ > 0;
  }

  void Finish(const absl::Status& status, int number, absl::Time now) {
    std::vector<std::function<void()>> cancels;
    {
      const MutexLock lock(&mutex_);
      if (finished_) return;
      finished_ = true;
      for (size_t i = 0; i < attempts_.size(); ++i) {
        if (attempts_[i].ended) continue;
        EndWithCall(status, attempts_[i].span);
        if (status.ok() && i < static_cast<size_t>(number))
          attempts_[i].replica->health().CountOvertaken(now, Silence(), begin_);
        if (attempts_[i].cancel != nullptr) cancels.push_back(std::move(attempts_[i].cancel));
      }
    }
    for (const std::function<void()>& cancel : cancels) cancel();
    target_.group->EndCall();
    if (environment_.metrics != nullptr) {
      environment_.metrics->CountCall(target_.group->name(), status.code(), now - begin_);
    }
    std::exchange(done_, nullptr)(status, number);
    if (environment_.calls != nullptr) environment_.calls->Remove(this);
  }

  // Ends a call that was never sent to a replica.
  void Refuse(const absl::Status& status) {
    if (environment_.metrics != nullptr) {
      environment_.metrics->CountCall(target_.group->name(), status.code(), absl::ZeroDuration());
    }
    std::exchange(done_, nullptr)(status, 0);
  }

  const CallEnvironment environment_;
  const CallTarget target_;
  const GroupCallOptions options_;
  const SendAttempt send_;
  absl::AnyInvocable<void(absl::Status, int)> done_;
  absl::Time begin_;
  bool begun_ = false;  // the group counts it as in flight

  Mutex mutex_;
  std::vector<Attempt> attempts_ ABSL_GUARDED_BY(mutex_);
  int num_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status come_back_ ABSL_GUARDED_BY(mutex_);  // the first error with a retry delay; OK if there was none
};

}  // namespace

void StartGroupCall(const CallEnvironment& environment, CallTarget target, const GroupCallOptions& options,
                    SendAttempt send, absl::AnyInvocable<void(absl::Status, int)> done) {
  std::make_shared<GroupCall>(environment, std::move(target), options, std::move(send), std::move(done))->Start();
}

}  // namespace maxsim::cluster
