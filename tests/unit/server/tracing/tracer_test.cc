#include "server/tracing/tracer.h"

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"

namespace maxsim::tracing {
namespace {

using Spans = std::vector<std::unique_ptr<SpanData>>;

// Keeps what has ended.
class KeepingSink : public SpanSink {
 public:
  explicit KeepingSink(Spans* spans) : spans_(spans) {}
  void Add(std::unique_ptr<SpanData> span) override { spans_->push_back(std::move(span)); }
  void Shutdown(absl::Time) override {}

 private:
  Spans* const spans_;
};

class TracerTest : public testing::Test {
 protected:
  Tracer MakeTracer(double ratio) { return Tracer(std::make_unique<KeepingSink>(&spans_), ratio); }

  static RemoteParent Parent(bool is_sampled) {
    return {.context = {.trace_id_high = 1, .trace_id_low = 2, .span_id = 3, .is_sampled = is_sampled},
            .tracestate = std::make_shared<const std::string>("vendor=1")};
  }

  Spans spans_;
};

TEST_F(TracerTest, ASampledParentIsFollowedAtEveryRatio) {
  for (const double ratio : {0.0, 0.5, 1.0}) {
    spans_.clear();
    const Tracer tracer = MakeTracer(ratio);
    Span span = tracer.StartSpan("call", SpanKind::kServer, Parent(true), MonotonicNow());
    ASSERT_TRUE(span.is_recording());
    EXPECT_NE(span.context().span_id, 3u);
    span.End();
    ASSERT_EQ(spans_.size(), 1u);
    EXPECT_EQ(spans_[0]->context.trace_id_high, 1u);
    EXPECT_EQ(spans_[0]->context.trace_id_low, 2u);
    EXPECT_EQ(spans_[0]->parent_span_id, 3u);
    EXPECT_EQ(*spans_[0]->tracestate, "vendor=1");
    EXPECT_EQ(spans_[0]->kind, SpanKind::kServer);
    EXPECT_EQ(spans_[0]->name, "call");
  }
}

TEST_F(TracerTest, AnUnsampledParentIsNotRecordedAndPassedOn) {
  for (const double ratio : {0.0, 1.0}) {
    const Tracer tracer = MakeTracer(ratio);
    Span span = tracer.StartSpan("call", SpanKind::kServer, Parent(false), MonotonicNow());
    EXPECT_FALSE(span.is_recording());
    Span child = span.StartChild("child");
    EXPECT_FALSE(child.is_recording());
    EXPECT_EQ(child.traceparent(), "00-00000000000000010000000000000002-0000000000000003-00");
    EXPECT_EQ(child.tracestate(), "vendor=1");
    span.AddChild("past", MonotonicNow(), MonotonicNow());
  }
  EXPECT_TRUE(spans_.empty());
}

TEST_F(TracerTest, WithoutAParentTheRatioDecides) {
  constexpr int kNumCalls = 20'000;
  for (const double ratio : {0.0, 0.01, 0.25, 1.0}) {
    const Tracer tracer = MakeTracer(ratio);
    int num_recorded = 0;
    for (int i = 0; i < kNumCalls; ++i) {
      const Span span = tracer.StartSpan("call", SpanKind::kServer, {}, absl::Time());
      num_recorded += span.is_recording() ? 1 : 0;
      ASSERT_TRUE(span.context().is_valid());
      ASSERT_EQ(span.context().is_sampled, span.is_recording());
    }
    // The number of recorded calls may be off by five standard deviations. At a ratio of 0.25, these are 306 calls.
    EXPECT_NEAR(num_recorded, ratio * kNumCalls, 5 * std::sqrt(ratio * (1 - ratio) * kNumCalls)) << ratio;
  }
}

TEST_F(TracerTest, ServersOfOneRatioDecideAlikeAndALargerOneRecordsMore) {
  const Tracer half = MakeTracer(0.5);
  for (int i = 0; i < 1000; ++i) {
    const Span span = half.StartSpan("call", SpanKind::kServer, {}, absl::Time());
    EXPECT_EQ(span.is_recording(), span.context().trace_id_low < uint64_t{1} << 63);
  }
}

TEST_F(TracerTest, ATracerThatIsOffGivesNoIds) {
  Tracer off(nullptr);
  EXPECT_FALSE(off.is_on());
  Span span = off.StartSpan("call", SpanKind::kServer, Parent(true), MonotonicNow());
  EXPECT_FALSE(span.is_recording());
  EXPECT_EQ(span.traceparent(), "");
  EXPECT_EQ(span.tracestate(), "");
  EXPECT_EQ(span.StartChild("child").traceparent(), "");
  off.Shutdown(MonotonicNow());
}

TEST_F(TracerTest, AChildNamesItsParentAndTheTrace) {
  const Tracer tracer = MakeTracer(1);
  const absl::Time start = MonotonicNow();
  {
    Span span = tracer.StartSpan("call", SpanKind::kServer, {}, start);
    Span child = span.StartChild("made", SpanKind::kClient);
    EXPECT_EQ(child.traceparent(), FormatTraceparent(child.context()));
    EXPECT_NE(child.context().span_id, span.context().span_id);
    span.AddChild("past", start + absl::Milliseconds(1), start + absl::Milliseconds(3));
  }
  ASSERT_EQ(spans_.size(), 3u);
  const SpanData& past = *spans_[0];
  const SpanData& made = *spans_[1];
  const SpanData& call = *spans_[2];
  EXPECT_EQ(call.parent_span_id, 0u);
  EXPECT_EQ(call.start, start);
  for (const SpanData* child : {&past, &made}) {
    EXPECT_EQ(child->parent_span_id, call.context.span_id);
    EXPECT_EQ(child->context.trace_id_high, call.context.trace_id_high);
    EXPECT_EQ(child->context.trace_id_low, call.context.trace_id_low);
  }
  EXPECT_EQ(past.start, start + absl::Milliseconds(1));
  EXPECT_EQ(past.end, start + absl::Milliseconds(3));
  EXPECT_EQ(past.kind, SpanKind::kInternal);
  EXPECT_EQ(made.kind, SpanKind::kClient);
  EXPECT_GE(made.start, call.start);
  EXPECT_LE(made.end, call.end);
}

TEST_F(TracerTest, ChildrenMayBeginOnceTheirParentHasEnded) {
  const Tracer tracer = MakeTracer(0);
  Span span = tracer.StartSpan("call", SpanKind::kServer, Parent(true), MonotonicNow());
  const TraceContext context = span.context();
  const SpanParent parent = span.AsParent();
  EXPECT_EQ(parent.traceparent(), span.traceparent());
  span.End();
  Span child = SpanParent(parent).StartChild("late", SpanKind::kClient);
  EXPECT_EQ(child.AsParent().tracestate(), "vendor=1");
  EXPECT_NE(child.traceparent(), parent.traceparent());
  child.End();
  ASSERT_EQ(spans_.size(), 2u);
  EXPECT_EQ(spans_[1]->name, "late");
  EXPECT_EQ(spans_[1]->parent_span_id, context.span_id);
  EXPECT_EQ(spans_[1]->context.trace_id_low, context.trace_id_low);
}

TEST_F(TracerTest, AParentThatIsNotRecordedIsPassedOnAndNoParentIsNot) {
  const Tracer tracer = MakeTracer(1);
  const Span span = tracer.StartSpan("call", SpanKind::kServer, Parent(false), MonotonicNow());
  const Span child = span.AsParent().StartChild("child", SpanKind::kClient);
  EXPECT_FALSE(child.is_recording());
  EXPECT_EQ(child.traceparent(), span.traceparent());
  EXPECT_EQ(child.tracestate(), "vendor=1");
  EXPECT_EQ(SpanParent().traceparent(), "");
  EXPECT_EQ(SpanParent().StartChild("child", SpanKind::kClient).traceparent(), "");
  EXPECT_TRUE(spans_.empty());
}

TEST_F(TracerTest, ASpanNeverEndsBeforeItBegan) {
  const Tracer tracer = MakeTracer(1);
  const absl::Time start = MonotonicNow();
  tracer.StartSpan("call", SpanKind::kServer, {}, start).EndAt(start - absl::Seconds(1));
  EXPECT_EQ(spans_[0]->end, start);
}

TEST_F(TracerTest, AttributesKeepTheirTypes) {
  const Tracer tracer = MakeTracer(1);
  Span span = tracer.StartSpan("call", SpanKind::kServer, {}, MonotonicNow());
  span.SetAttribute("text", "docs");
  span.SetAttribute("integer", int64_t{7});
  span.SetAttribute("number", 0.5);
  span.SetAttribute("truth", true);
  span.End();
  const std::vector<Attribute>& attributes = spans_[0]->attributes;
  ASSERT_EQ(attributes.size(), 4u);
  EXPECT_EQ(std::get<std::string>(attributes[0].value), "docs");
  EXPECT_EQ(std::get<int64_t>(attributes[1].value), 7);
  EXPECT_EQ(std::get<double>(attributes[2].value), 0.5);
  EXPECT_EQ(std::get<bool>(attributes[3].value), true);
  EXPECT_EQ(attributes[1].key, "integer");
}

TEST_F(TracerTest, LongAndBrokenTextsAreMadeFitToSend) {
  const Tracer tracer = MakeTracer(1);
  Span span = tracer.StartSpan("call", SpanKind::kServer, {}, MonotonicNow());
  span.SetAttribute("long", std::string(2 * kMaxTextBytes, 'x'));
  span.SetAttribute("broken", "caf\xc3");
  span.End();
  const auto& text = std::get<std::string>(spans_[0]->attributes[0].value);
  EXPECT_EQ(text, std::string(kMaxTextBytes, 'x') + "...");
  EXPECT_TRUE(IsUtf8(std::get<std::string>(spans_[0]->attributes[1].value)));
}

TEST_F(TracerTest, AnErrorIsKeptWithItsCode) {
  const Tracer tracer = MakeTracer(1);
  Span good = tracer.StartSpan("good", SpanKind::kServer, {}, MonotonicNow());
  good.SetStatus(absl::OkStatus());
  good.End();
  Span bad = tracer.StartSpan("bad", SpanKind::kServer, {}, MonotonicNow());
  bad.SetStatus(absl::InvalidArgumentError("top_k: is 0"));
  bad.End();
  EXPECT_FALSE(spans_[0]->has_error);
  EXPECT_TRUE(spans_[1]->has_error);
  EXPECT_EQ(spans_[1]->error, "INVALID_ARGUMENT: top_k: is 0");
}

TEST_F(TracerTest, AMovedSpanEndsOnce) {
  const Tracer tracer = MakeTracer(1);
  {
    Span first = tracer.StartSpan("first", SpanKind::kServer, {}, MonotonicNow());
    Span second = std::move(first);
    Span third = tracer.StartSpan("third", SpanKind::kServer, {}, MonotonicNow());
    third = std::move(second);  // ends the span that it was
    EXPECT_EQ(spans_.size(), 1u);
    third.End();
    third.End();
    EXPECT_FALSE(third.is_recording());
    third.SetAttribute("late", true);
  }
  ASSERT_EQ(spans_.size(), 2u);
  EXPECT_EQ(spans_[0]->name, "third");
  EXPECT_EQ(spans_[1]->name, "first");
}

}  // namespace
}  // namespace maxsim::tracing
