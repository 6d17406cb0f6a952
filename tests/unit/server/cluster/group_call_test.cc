// Tests calls to a group whose replicas do what a test says.
#include "server/cluster/groups/group_call.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/tracing/tracer.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/cluster/span_keeper.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::cluster {
namespace {

using testing::HasSubstr;

class GroupCallTest : public testing::Test {
 protected:
  explicit GroupCallTest(int num_replicas = 3, int max_calls = 100) : group_(std::make_shared<Group>("g", max_calls)) {
    Replicas replicas;
    for (int i = 0; i < num_replicas; ++i) {
      replicas.push_back(MakeReplica(absl::StrCat("localhost:", 1 + i)));
      Say(*replicas.back(), {});
    }
    group_->SetReplicas(std::move(replicas));
  }

  void Begin(bool may_hedge = false, CallRegistry* calls = nullptr) {
    const SendAttempt send = [this](Replica& replica, int attempt, const tracing::SpanParent& span,
                                    std::function<void(absl::Status)> done) {
      const MutexLock lock(&mutex_);
      traceparents_.push_back(span.traceparent());
      asked_.push_back(replica.target());
      ends_.push_back(std::move(done));
      return [this, attempt] {
        const MutexLock cancelling(&mutex_);
        cancelled_.push_back(attempt);
      };
    };
    StartGroupCall({.timer = &timer_, .calls = calls, .metrics = nullptr, .metadata = nullptr},
                   {group_, group_->replicas()},
                   {.deadline = deadline_, .may_hedge = may_hedge, .may_repeat = may_repeat_, .span = span_}, send,
                   [this](const absl::Status& status, int attempt) {
                     status_ = status;
                     attempt_ = attempt;
                     if (!finished_.HasBeenNotified()) finished_.Notify();
                   });
  }

  // Lets the group's percentile be `time`.
  void Expect(absl::Duration time) {
    for (int i = 0; i < 100; ++i) group_->latencies().Add(time);
    group_->latencies().Turn(MonotonicNow(), 0.95);
  }

  std::vector<std::string> asked() {
    const MutexLock lock(&mutex_);
    return asked_;
  }
  std::vector<int> cancelled() {
    const MutexLock lock(&mutex_);
    return cancelled_;
  }

  // Ends an attempt.
  void End(size_t attempt, const absl::Status& status) {
    std::function<void(absl::Status)> end;
    {
      const MutexLock lock(&mutex_);
      end = ends_.at(attempt);
    }
    end(status);
  }

  void WaitForAttempts(size_t count) {
    test::Eventually([&] { return asked().size() >= count; });
    ASSERT_EQ(asked().size(), count);
  }

  static absl::Status Away() { return absl::UnavailableError("away"); }

  const std::shared_ptr<Group> group_;
  absl::Time deadline_ = MonotonicNow() + absl::Hours(1);
  Mutex mutex_;
  std::vector<std::string> asked_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void(absl::Status)>> ends_ ABSL_GUARDED_BY(mutex_);
  std::vector<int> cancelled_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> traceparents_ ABSL_GUARDED_BY(mutex_);
  tracing::SpanParent span_;
  bool may_repeat_ = true;
  absl::Notification finished_;
  absl::Status status_;
  int attempt_ = -1;
  Timer timer_;
};

TEST_F(GroupCallTest, OneReplicaIsAskedAndItsAnswerEndsTheCall) {
  Begin();
  ASSERT_EQ(asked().size(), 1);
  EXPECT_EQ(group_->calls_in_flight(), 1);
  End(0, absl::OkStatus());
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_TRUE(status_.ok());
  EXPECT_EQ(attempt_, 0);
  EXPECT_EQ(group_->calls_in_flight(), 0);
  for (const std::shared_ptr<Replica>& replica : group_->replicas()) EXPECT_EQ(replica->calls_in_flight(), 0);
}

TEST_F(GroupCallTest, ALostReplicaIsFollowedByEachOfTheOthersOnce) {
  Begin();
  End(0, Away());
  ASSERT_EQ(asked().size(), 2);
  End(1, absl::InternalError("a fault"));
  ASSERT_EQ(asked().size(), 3);
  EXPECT_FALSE(finished_.HasBeenNotified());
  End(2, Away());
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_EQ(status_, Away());
  EXPECT_THAT(asked(), testing::UnorderedElementsAre("localhost:1", "localhost:2", "localhost:3"));
}

TEST_F(GroupCallTest, AnErrorOfTheRequestIsFinalAndSaysNothingAgainstTheReplica) {
  const std::shared_ptr<Replica> first = group_->replicas()[0];
  for (int i = 0; i + 1 < ReplicaHealth::kMaxFailures; ++i) first->health().CountFailure(MonotonicNow());
  Begin();
  ASSERT_EQ(asked()[0], first->target());
  End(0, absl::InvalidArgumentError("queries[0]: wrong"));
  EXPECT_TRUE(finished_.HasBeenNotified());
  EXPECT_EQ(asked().size(), 1);
  EXPECT_TRUE(absl::IsInvalidArgument(status_));
  first->health().CountFailure(MonotonicNow());
  EXPECT_FALSE(first->health().is_ejected(MonotonicNow()));
}

TEST_F(GroupCallTest, AnotherReplicaMayHaveTheGenerationThatOneHasNot) {
  Begin();
  absl::Status other = absl::FailedPreconditionError("collection c: is of generation 1");
  client::SetReason(client::kReasonOtherGeneration, other);
  End(0, other);
  ASSERT_EQ(asked().size(), 2);
  End(1, absl::OkStatus());
  EXPECT_TRUE(status_.ok());
  EXPECT_EQ(attempt_, 1);
}

TEST_F(GroupCallTest, AFullReplicaIsNotAskedAgainForAWhile) {
  absl::Status full = absl::ResourceExhaustedError("full");
  client::SetRetryAfter(absl::Hours(1), full);
  Begin();
  for (int i = 0; i < 3; ++i) End(static_cast<size_t>(i), full);
  EXPECT_TRUE(absl::IsResourceExhausted(status_));
  // The next call is refused without asking.
  std::optional<absl::Status> next;
  StartGroupCall(
      {.timer = &timer_}, {group_, group_->replicas()}, {.deadline = deadline_},
      [](Replica&, int, const tracing::SpanParent&, const std::function<void(absl::Status)>&) -> std::function<void()> {
        ADD_FAILURE() << "a full group was asked";
        return nullptr;
      },
      [&](const absl::Status& status, int) { next = status; });
  ASSERT_TRUE(next.has_value());
  EXPECT_TRUE(absl::IsResourceExhausted(*next));
  const std::optional<absl::Duration> retry = client::RetryAfter(*next);
  ASSERT_TRUE(retry.has_value());
  EXPECT_LE(*retry, absl::Seconds(1));
}

TEST_F(GroupCallTest, ResourceExhaustedWithoutATimeIsFinal) {
  Begin();
  End(0, absl::ResourceExhaustedError("the request is too large"));
  EXPECT_TRUE(finished_.HasBeenNotified());
  EXPECT_EQ(asked().size(), 1);
}

TEST_F(GroupCallTest, AWriteWhoseAnswerIsLostIsNotSentToAnother) {
  may_repeat_ = false;
  Begin();
  End(0, Away());
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_TRUE(absl::IsUnavailable(status_));
  EXPECT_EQ(asked().size(), 1);
}

TEST_F(GroupCallTest, AWriteOfWhichNothingWasWrittenIsSentToAnother) {
  may_repeat_ = false;
  Begin();
  absl::Status refused = Away();
  client::SetNothingWritten(refused);
  End(0, refused);
  absl::Status not_sent = Away();
  client::SetReason(client::kReasonNotConnected, not_sent);
  End(1, not_sent);
  End(2, absl::OkStatus());
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(asked().size(), 3);
}

TEST_F(GroupCallTest, AReplicaThatSaysWhenToComeBackIsWell) {
  for (int call = 0; call < 2 * ReplicaHealth::kMaxFailures; ++call) {
    absl::Status behind = absl::UnavailableError("min_sequence: is 5");
    client::SetRetryAfter(absl::Milliseconds(1), behind);
    const size_t before = asked().size();
    Begin();
    for (size_t attempt = before; attempt < before + 3; ++attempt) End(attempt, behind);
  }
  for (const auto& replica : group_->replicas()) EXPECT_FALSE(replica->health().is_ejected(MonotonicNow()));
}

TEST_F(GroupCallTest, AfterTheDeadlineNobodyElseIsAsked) {
  deadline_ = MonotonicNow() - absl::Milliseconds(1);
  Begin();
  End(0, Away());
  EXPECT_TRUE(finished_.HasBeenNotified());
  EXPECT_EQ(asked().size(), 1);
}

TEST_F(GroupCallTest, ASlowReplicaIsFollowedByAnotherAndTheFirstAnswerCounts) {
  Expect(absl::Milliseconds(5));
  Begin(/*may_hedge=*/true);
  WaitForAttempts(2);
  EXPECT_NE(asked()[0], asked()[1]);
  End(1, absl::OkStatus());
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_EQ(attempt_, 1);
  EXPECT_THAT(cancelled(), testing::ElementsAre(0));
  // What the loser says comes too late, and changes nothing.
  End(0, absl::CancelledError(""));
  EXPECT_TRUE(status_.ok());
  for (const std::shared_ptr<Replica>& replica : group_->replicas()) EXPECT_EQ(replica->calls_in_flight(), 0);
}

TEST_F(GroupCallTest, AReplicaThatLosesAgainAndAgainIsLeftOut) {
  const std::shared_ptr<Replica> slow = group_->replicas()[0];
  for (int i = 0; i < ReplicaHealth::kMaxFailures; ++i) slow->health().CountFailure(MonotonicNow());
  EXPECT_TRUE(slow->health().is_ejected(MonotonicNow()));
  Begin();
  EXPECT_NE(asked()[0], slow->target());
  End(0, absl::OkStatus());
}

TEST_F(GroupCallTest, WhereNobodyWhoWasAskedAnswersAnyMoreAnotherIsAskedAtNoCost) {
  while (group_->TakeHedge()) {
  }
  Expect(absl::Milliseconds(5));
  Begin(/*may_hedge=*/true);
  for (const std::shared_ptr<Replica>& replica : group_->replicas()) {
    if (replica->target() == asked()[0]) replica->SetPollError(absl::UnavailableError("paused"));
  }
  WaitForAttempts(2);
  End(1, absl::OkStatus());
  EXPECT_EQ(attempt_, 1);
}

TEST_F(GroupCallTest, WhereOneStandsStillAndTheOthersAreBehindTheCallSaysWhenToComeBack) {
  Expect(absl::Milliseconds(5));
  absl::Status behind = absl::UnavailableError("min_sequence: is 5");
  client::SetRetryAfter(absl::Milliseconds(1), behind);
  Begin(/*may_hedge=*/true);
  WaitForAttempts(2);
  End(1, behind);
  End(2, behind);
  EXPECT_FALSE(finished_.HasBeenNotified());
  finished_.WaitForNotification();
  EXPECT_TRUE(absl::IsUnavailable(status_));
  EXPECT_TRUE(client::RetryAfter(status_).has_value());
  EXPECT_THAT(cancelled(), testing::ElementsAre(0));
  End(0, absl::CancelledError(""));
}

TEST_F(GroupCallTest, WithoutMeasuredTimesNobodyIsAskedTwice) {
  Begin(/*may_hedge=*/true);
  absl::SleepFor(absl::Milliseconds(30));
  EXPECT_EQ(asked().size(), 1);
  End(0, absl::OkStatus());
}

TEST_F(GroupCallTest, AnAnswerInTimeAsksNobodyElse) {
  // On a busy machine the call may take a while.
  Expect(absl::Seconds(2));
  Begin(/*may_hedge=*/true);
  End(0, absl::OkStatus());
  absl::SleepFor(absl::Milliseconds(2500));
  EXPECT_EQ(asked().size(), 1);
}

class TracedGroupCallTest : public GroupCallTest {
 protected:
  TracedGroupCallTest() { span_ = call_.AsParent(); }

  template <typename Value>
  static Value Of(const tracing::SpanData& span, std::string_view key) {
    for (const tracing::Attribute& attribute : span.attributes) {
      if (attribute.key == key) return std::get<Value>(attribute.value);
    }
    ADD_FAILURE() << "no attribute " << key;
    return {};
  }

  // Expects the span of an attempt, which the replica was told of, and its error ("" for none).
  void ExpectAttempt(const tracing::SpanData& span, int attempt, bool is_hedge, const std::string& error) {
    EXPECT_EQ(span.name, "group_call");
    EXPECT_EQ(span.kind, tracing::SpanKind::kClient);
    EXPECT_EQ(span.parent_span_id, call_.context().span_id);
    EXPECT_EQ(span.context.trace_id_low, call_.context().trace_id_low);
    const MutexLock lock(&mutex_);
    const auto idx = static_cast<size_t>(attempt);
    EXPECT_EQ(tracing::FormatTraceparent(span.context), traceparents_.at(idx));
    EXPECT_EQ(Of<std::string>(span, "maxsim.group"), "g");
    EXPECT_EQ(Of<std::string>(span, "maxsim.replica"), asked_.at(idx));
    EXPECT_EQ(Of<int64_t>(span, "maxsim.attempt"), attempt);
    EXPECT_EQ(Of<bool>(span, "maxsim.hedge"), is_hedge);
    EXPECT_EQ(span.error, error);
  }

  SpanKeeper::Spans spans_;
  const tracing::Tracer tracer_{std::make_unique<SpanKeeper>(&spans_)};
  tracing::Span call_ = tracer_.StartSpan("call", tracing::SpanKind::kServer, {}, MonotonicNow());
};

TEST_F(TracedGroupCallTest, EachAttemptHasASpanWithItsOutcome) {
  Begin();
  End(0, Away());
  End(1, absl::OkStatus());
  ASSERT_EQ(spans_.size(), 2);
  ExpectAttempt(*spans_[0], 0, /*is_hedge=*/false, "UNAVAILABLE: away");
  ExpectAttempt(*spans_[1], 1, /*is_hedge=*/false, "");
}

TEST_F(TracedGroupCallTest, TheSpanOfALosingAttemptEndsWithTheCall) {
  Expect(absl::Milliseconds(5));
  Begin(/*may_hedge=*/true);
  WaitForAttempts(2);
  End(1, absl::OkStatus());
  ASSERT_EQ(spans_.size(), 2);
  ExpectAttempt(*spans_[0], 1, /*is_hedge=*/true, "");
  ExpectAttempt(*spans_[1], 0, /*is_hedge=*/false, "CANCELLED: another replica answered first");
  call_.End();
  End(0, absl::CancelledError(""));
  EXPECT_EQ(spans_.size(), 3);
}

TEST_F(TracedGroupCallTest, ACallThatIsEndedEndsItsSpans) {
  CallRegistry calls;
  Begin(/*may_hedge=*/false, &calls);
  calls.Close();
  ASSERT_EQ(spans_.size(), 1);
  ExpectAttempt(*spans_[0], 0, /*is_hedge=*/false, "CANCELLED: the call ended before the answer");
  End(0, absl::OkStatus());  // too late
}

TEST_F(TracedGroupCallTest, ReplicasHearThatATraceIsNotSampled) {
  const tracing::RemoteParent unsampled{.context = {.trace_id_high = 1, .trace_id_low = 2, .span_id = 3},
                                        .tracestate = nullptr};
  tracing::Span call = tracer_.StartSpan("call", tracing::SpanKind::kServer, unsampled, MonotonicNow());
  span_ = call.AsParent();
  Begin();
  End(0, absl::OkStatus());
  EXPECT_TRUE(spans_.empty());
  const MutexLock lock(&mutex_);
  EXPECT_THAT(traceparents_, testing::ElementsAre("00-00000000000000010000000000000002-0000000000000003-00"));
}

TEST_F(GroupCallTest, WithoutATraceReplicasHearNothing) {
  Begin();
  End(0, absl::OkStatus());
  const MutexLock lock(&mutex_);
  EXPECT_THAT(traceparents_, testing::ElementsAre(""));
}

class FullGroupCallTest : public GroupCallTest {
 protected:
  FullGroupCallTest() : GroupCallTest(1, 1) {}
};

TEST_F(FullGroupCallTest, ACallBeyondTheLimitIsRefusedWithATime) {
  EXPECT_TRUE(group_->TryBeginCall());
  Begin();
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_TRUE(absl::IsResourceExhausted(status_));
  EXPECT_TRUE(client::RetryAfter(status_).has_value());
  EXPECT_THAT(std::string(status_.message()), HasSubstr("cluster.max_calls_in_flight"));
}

TEST_F(GroupCallTest, CallsUnderWayEndWhenTheRegistryIsClosed) {
  CallRegistry calls;
  Begin(/*may_hedge=*/false, &calls);
  EXPECT_EQ(calls.size(), 1);
  EXPECT_FALSE(finished_.HasBeenNotified());
  EXPECT_EQ(calls.Close(), 1);
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_TRUE(absl::IsUnavailable(status_));
  EXPECT_THAT(cancelled(), testing::ElementsAre(0));
  EXPECT_EQ(group_->calls_in_flight(), 0);
  End(0, absl::OkStatus());  // too late
  EXPECT_TRUE(absl::IsUnavailable(status_));
}

TEST_F(GroupCallTest, AClosedRegistryRefusesCalls) {
  CallRegistry calls;
  EXPECT_EQ(calls.Close(), 0);
  Begin(/*may_hedge=*/false, &calls);
  ASSERT_TRUE(finished_.HasBeenNotified());
  EXPECT_TRUE(absl::IsUnavailable(status_));
  EXPECT_TRUE(asked().empty());
  EXPECT_EQ(group_->calls_in_flight(), 0);
}

TEST_F(GroupCallTest, WhoWaitsForCallsGoesOnWhenTheLastHasEnded) {
  CallRegistry calls;
  Begin(/*may_hedge=*/false, &calls);
  const absl::Time begin = MonotonicNow();
  calls.WaitForNone(begin + absl::Milliseconds(20));
  EXPECT_GE(MonotonicNow(), begin + absl::Milliseconds(20));
  End(0, absl::OkStatus());
  calls.WaitForNone(absl::InfiniteFuture());
  EXPECT_EQ(calls.size(), 0);
}

TEST(GroupCallWithoutReplicasTest, NoReplicaIsUnavailable) {
  absl::Status status;
  StartGroupCall({}, {std::make_shared<Group>("g", 1), {}}, {}, nullptr,
                 [&](const absl::Status& end, int) { status = end; });
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("group g"));
}

}  // namespace
}  // namespace maxsim::cluster
