// Tests the spans of calls to a group, and the trace context that replicas get.
#include "server/cluster/groups/group_call.h"

#include <string>

#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/tracing/tracer.h"
#include "tests/unit/server/cluster/group_call_fixture.h"
#include "tests/unit/server/cluster/span_keeper.h"

namespace maxsim::cluster {
namespace {

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

  // Expects that `span` describes an attempt: the replica got its trace context, and it has this error ("" for none).
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

}  // namespace
}  // namespace maxsim::cluster
