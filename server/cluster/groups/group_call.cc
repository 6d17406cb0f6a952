#include "server/cluster/groups/group_call.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "server/service/call/call_spans.h"
#include "server/tracing/trace_context.h"

namespace maxsim::cluster {
namespace {

// The retry delay that a caller is told when the group has too many calls in flight.
constexpr absl::Duration kTooManyCallsDelay = absl::Milliseconds(50);

// A full replica gets no calls for at most this long, even if it asks for a longer delay, because it may have room for
// smaller requests.
constexpr absl::Duration kMaxFullTime = absl::Seconds(1);

// A replica counts as stalled if it has answered no call for ten times the group's latency percentile, within these
// bounds. The minimum is for groups whose calls take microseconds. The maximum also applies to groups without a
// measured percentile.
constexpr int kSilencePercentiles = 10;
constexpr absl::Duration kMinSilence = absl::Milliseconds(100);
constexpr absl::Duration kMaxSilence = absl::Seconds(5);

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

// Ends the span of an attempt that was still in progress when its call ended with `status`.
void EndWithCall(const absl::Status& status, tracing::Span& span) {
  if (!span.is_recording()) return;
  const char* const why = status.ok() ? "another replica answered first" : "the call ended before the answer";
  service::EndCall(absl::CancelledError(why), span);
}

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
      if (MayAskSecond()) {
        ScheduleHedge();
      } else if (options_.cancelled != nullptr) {
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

  bool MayAskSecond() const { return options_.may_hedge && target_.replicas.size() > 1; }

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
      replica = ChooseReplica(target_.replicas, tried, MonotonicNow(), target_.group->NextTurn());
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
      return Finish(absl::CancelledError("the client went away"), 0, now);
    }
    if (MayAskSecond()) Hedge(now);
    if (const absl::Status status = ErrorWhereOthersStandStill(now); !status.ok()) return Finish(status, 0, now);
    LookIn(kLookInterval, now);
  }

  // Sends the call to one more replica in two cases: the group has budget for a hedge, or each replica that has the
  // call and has not answered is ejected or fails its polls.
  void Hedge(absl::Time now) {
    bool all_asked = false;
    bool nobody_answers = true;
    {
      const MutexLock lock(&mutex_);
      if (num_in_flight_ == 0) return;  // OnEnd is about to ask another one.
      for (const Attempt& attempt : attempts_) {
        if (attempt.ended) continue;
        const Replica& replica = *attempt.replica;
        if (replica.poll_status().ok() && !replica.health().is_ejected(now)) nobody_answers = false;
      }
      all_asked = attempts_.size() == target_.replicas.size();
    }
    if (all_asked) return;
    const bool measured = target_.group->latencies().percentile() < absl::InfiniteDuration();
    if (nobody_answers || (measured && target_.group->TakeHedge())) {
      if (TryAttempt(/*is_hedge=*/true) && environment_.metrics != nullptr) {
        environment_.metrics->CountHedge(target_.group->name());
      }
    }
  }

  void Note(Replica& replica, const absl::Status& status, absl::Time now) {
    if (IsFault(status)) return replica.health().CountFailure(now);
    // A call with a short deadline may expire on a healthy replica. So the timeout counts against the replica only if
    // it has answered no other call in the meantime.
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

  // Ends a write that a lost replica may still carry out, but only once it cannot: once the write has expired, or
  // another process has taken the replica's place. A replica without a clock knows of no expiry, so waiting would not
  // help.
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

  // Returns the error with a retry delay if a replica returned one and all replicas that have not answered are
  // stalled. A client that retries after this error gets an answer, but one that waits for the stalled replicas does
  // not. Returns OK otherwise, and for a write: a stalled replica may still carry it out.
  absl::Status ErrorWhereOthersStandStill(absl::Time now) {
    const MutexLock lock(&mutex_);
    if (!options_.may_repeat || come_back_.ok() || attempts_.size() < target_.replicas.size()) return absl::OkStatus();
    for (const Attempt& attempt : attempts_) {
      if (!attempt.ended && !attempt.replica->health().stands_still(now, Silence(), begin_)) return absl::OkStatus();
    }
    for (const Attempt& attempt : attempts_) {
      if (!attempt.ended) attempt.replica->health().CountOvertaken(now, Silence(), begin_);
    }
    return come_back_;
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

void AddTrace(const tracing::SpanParent& span, grpc::ClientContext& context) {
  Guarded([&] {
    const std::string traceparent = span.traceparent();
    if (traceparent.empty()) return absl::OkStatus();
    context.AddMetadata(tracing::kTraceparentKey, traceparent);
    const std::string_view state = span.tracestate();
    if (!state.empty()) context.AddMetadata(tracing::kTracestateKey, std::string(state));
    return absl::OkStatus();
  }).IgnoreError();  // If memory runs out, the call goes on without its trace.
}

void StartGroupCall(const CallEnvironment& environment, CallTarget target, const GroupCallOptions& options,
                    SendAttempt send, absl::AnyInvocable<void(absl::Status, int)> done) {
  std::make_shared<GroupCall>(environment, std::move(target), options, std::move(send), std::move(done))->Start();
}

}  // namespace maxsim::cluster
