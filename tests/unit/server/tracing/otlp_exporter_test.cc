// Sends spans to a collector in this process, which gives the answers that each test chooses.
#include "server/tracing/otlp_exporter.h"

#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/tracing/tracer.h"
#include "tests/unit/server/tracing/collector_fixture.h"

namespace maxsim::tracing {
namespace {

using testing::ElementsAre;

// Throws bad_alloc in the first call. Answers all others with OK.
class StubWithoutMemory final : public OtlpExporter::Stub {
 public:
  grpc::Status Export(grpc::ClientContext*, const collector_api::ExportTraceServiceRequest&,
                      collector_api::ExportTraceServiceResponse*) override {
    if (!std::exchange(has_failed_, true)) throw std::bad_alloc();
    return grpc::Status::OK;
  }

 private:
  using Answer = collector_api::ExportTraceServiceResponse;
  grpc::ClientAsyncResponseReaderInterface<Answer>* AsyncExportRaw(grpc::ClientContext*,
                                                                   const collector_api::ExportTraceServiceRequest&,
                                                                   grpc::CompletionQueue*) override {
    return nullptr;
  }
  grpc::ClientAsyncResponseReaderInterface<Answer>* PrepareAsyncExportRaw(
      grpc::ClientContext*, const collector_api::ExportTraceServiceRequest&, grpc::CompletionQueue*) override {
    return nullptr;
  }

  bool has_failed_ = false;
};

TEST_F(OtlpExporterTest, ASpanArrivesWithEverythingThatItHas) {
  Open(Quick());
  const absl::Time before = absl::Now();
  RemoteParent parent = ReadParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "rojo=1");
  Span span = tracer_->StartSpan("call", SpanKind::kServer, parent, MonotonicNow());
  const uint64_t id = span.context().span_id;
  span.SetAttribute("text", "docs");
  span.SetAttribute("integer", int64_t{7});
  span.SetAttribute("number", 0.5);
  span.SetAttribute("truth", true);
  span.SetStatus(absl::NotFoundError("no such collection"));
  span.End();
  ASSERT_TRUE(observer_->WaitFor(1));
  const absl::Time after = absl::Now();

  const auto requests = collector_.requests();
  ASSERT_EQ(requests.size(), 1u);
  const auto& of_service = requests[0].resource_spans(0);
  std::vector<std::string> resource;
  for (const auto& attribute : of_service.resource().attributes()) {
    resource.push_back(absl::StrCat(attribute.key(), "=", attribute.value().string_value(),
                                    attribute.value().has_int_value() ? attribute.value().int_value() : 0));
  }
  EXPECT_THAT(resource,
              ElementsAre("service.name=unit0", "service.version=1.2.30", "host.name=here0", "process.pid=42"));
  EXPECT_EQ(of_service.scope_spans(0).scope().name(), "maxsimd");

  const auto& sent = of_service.scope_spans(0).spans(0);
  EXPECT_EQ(sent.trace_id(), std::string("\x4b\xf9\x2f\x35\x77\xb3\x4d\xa6\xa3\xce\x92\x9d\x0e\x0e\x47\x36"));
  EXPECT_EQ(sent.parent_span_id(), std::string("\x00\xf0\x67\xaa\x0b\xa9\x02\xb7", 8));
  ASSERT_EQ(sent.span_id().size(), 8u);
  uint64_t sent_id = 0;
  for (const char byte : sent.span_id()) sent_id = sent_id << 8 | static_cast<unsigned char>(byte);
  EXPECT_EQ(sent_id, id);
  EXPECT_EQ(sent.trace_state(), "rojo=1");
  EXPECT_EQ(sent.flags(), 1u);
  EXPECT_EQ(sent.name(), "call");
  EXPECT_EQ(sent.kind(), opentelemetry::proto::trace::v1::Span::SPAN_KIND_SERVER);
  EXPECT_EQ(sent.status().code(), opentelemetry::proto::trace::v1::Status::STATUS_CODE_ERROR);
  EXPECT_EQ(sent.status().message(), "NOT_FOUND: no such collection");
  ASSERT_EQ(sent.attributes_size(), 4);
  EXPECT_EQ(sent.attributes(0).value().string_value(), "docs");
  EXPECT_EQ(sent.attributes(1).value().int_value(), 7);
  EXPECT_EQ(sent.attributes(2).value().double_value(), 0.5);
  EXPECT_TRUE(sent.attributes(3).value().bool_value());
  // The exporter may read the wall clock late on a busy machine, so the times may be off by five minutes.
  EXPECT_GE(sent.start_time_unix_nano(), static_cast<uint64_t>(absl::ToUnixNanos(before - absl::Minutes(5))));
  EXPECT_LE(sent.end_time_unix_nano(), static_cast<uint64_t>(absl::ToUnixNanos(after + absl::Minutes(5))));
  EXPECT_LE(sent.start_time_unix_nano(), sent.end_time_unix_nano());
}

TEST_F(OtlpExporterTest, ACollectorThatFailsFirstGetsTheSpansLaterAndOnce) {
  const grpc::Status down(grpc::StatusCode::UNAVAILABLE, "not yet");
  collector_.AnswerWith({down, down, down});
  Open(Quick());
  Record(3);
  ASSERT_TRUE(observer_->WaitFor(3));
  EXPECT_EQ(observer_->num_exported(), 3u);
  EXPECT_EQ(collector_.spans().size(), 3u);
  EXPECT_THAT(observer_->states(), ElementsAre(absl::StatusCode::kUnavailable, absl::StatusCode::kOk));
}

TEST_F(OtlpExporterTest, ACollectorThatIsNotThereYetGetsTheSpansOnceItIs) {
  port_ = collector_.Open();
  collector_.Close();
  Open({.max_batch_delay = absl::Milliseconds(5), .max_attempts = 100, .first_backoff = absl::Milliseconds(20)});
  Record(2);
  while (observer_->states().empty()) absl::SleepFor(absl::Milliseconds(5));
  ASSERT_EQ(collector_.Open(port_), port_);
  ASSERT_TRUE(observer_->WaitFor(2));
  EXPECT_EQ(observer_->num_exported(), 2u);
}

TEST_F(OtlpExporterTest, ABatchIsDroppedAfterItsAttempts) {
  const grpc::Status down(grpc::StatusCode::UNAVAILABLE, "down");
  collector_.AnswerWith({down, down, down, down, down});
  Open(Quick());
  Record(4);
  ASSERT_TRUE(observer_->WaitFor(4));
  EXPECT_EQ(observer_->num_dropped(DropReason::kUnavailable), 4u);
  EXPECT_EQ(collector_.num_calls(), 5);
  Record(1);
  ASSERT_TRUE(observer_->WaitFor(5));
  EXPECT_EQ(observer_->num_exported(), 1u);
}

TEST_F(OtlpExporterTest, AnotherErrorIsNotTriedAgain) {
  collector_.AnswerWith({{grpc::StatusCode::PERMISSION_DENIED, "who are you"}});
  Open(Quick());
  Record(2);
  ASSERT_TRUE(observer_->WaitFor(2));
  EXPECT_EQ(observer_->num_dropped(DropReason::kRefused), 2u);
  EXPECT_EQ(collector_.num_calls(), 1);
  EXPECT_THAT(observer_->states(), ElementsAre(absl::StatusCode::kPermissionDenied));
}

// The first export throws, so its call no longer exists. Shutdown must not cancel it, which ASan would report.
TEST_F(OtlpExporterTest, AnExportThatThrowsLosesItsBatchAndIsForgotten) {
  for (const int num_later : {0, 2}) {
    observer_ = std::make_shared<CountingObserver>();
    tracer_ = std::make_unique<Tracer>(
        std::make_unique<OtlpExporter>(Quick(), observer_, std::make_unique<StubWithoutMemory>()), 1.0);
    Record(1);
    ASSERT_TRUE(observer_->WaitFor(1));
    EXPECT_EQ(observer_->num_dropped(DropReason::kMemory), 1u);
    Record(num_later);
    tracer_->Shutdown(MonotonicNow() + kPatience);
    EXPECT_EQ(observer_->num_exported(), static_cast<uint64_t>(num_later));
  }
}

TEST_F(OtlpExporterTest, SpansThatTheCollectorRejectsAreCountedAsRefused) {
  collector_.RejectOfEachCall(2);
  Open({.max_batch_spans = 5, .max_batch_delay = absl::Hours(1)});
  Record(5);
  ASSERT_TRUE(observer_->WaitFor(5));
  EXPECT_EQ(observer_->num_exported(), 3u);
  EXPECT_EQ(observer_->num_dropped(DropReason::kRefused), 2u);
}

TEST_F(OtlpExporterTest, ACollectorThatDoesNotAnswerInTimeLosesTheBatch) {
  collector_.SetStuck(true);
  ExporterOptions options = Quick();
  options.timeout = absl::Milliseconds(100);
  Open(options);
  Record(1);
  ASSERT_TRUE(observer_->WaitFor(1));
  EXPECT_EQ(observer_->num_dropped(DropReason::kTimeout), 1u);
}

TEST_F(OtlpExporterTest, AFullQueueDropsAndDoesNotBlock) {
  constexpr int kCapacity = 8;
  collector_.SetStuck(true);
  Open({.max_queued_spans = kCapacity, .max_batch_spans = 1, .max_batch_delay = absl::Milliseconds(1)});
  Record(1);
  ASSERT_TRUE(collector_.WaitForCalls(1));  // the exporter's thread has taken the span, so the queue is empty
  Record(kCapacity);
  EXPECT_EQ(observer_->num_dropped(DropReason::kQueueFull), 0u);
  Record(100);
  EXPECT_EQ(observer_->num_dropped(DropReason::kQueueFull), 100u);
  collector_.SetStuck(false);
  ASSERT_TRUE(observer_->WaitFor(100 + kCapacity + 1));
  EXPECT_EQ(observer_->num_exported(), uint64_t{kCapacity} + 1);
}

TEST_F(OtlpExporterTest, BatchesHaveTheirSizeAtMost) {
  Open({.max_batch_spans = 4, .max_batch_delay = absl::Milliseconds(50)});
  Record(10);
  ASSERT_TRUE(observer_->WaitFor(10));
  EXPECT_EQ(observer_->num_exported(), 10u);
  for (const auto& request : collector_.requests()) {
    EXPECT_LE(request.resource_spans(0).scope_spans(0).spans_size(), 4);
  }
  EXPECT_GE(collector_.num_calls(), 3);
}

TEST_F(OtlpExporterTest, ShuttingDownSendsWhatWaits) {
  Open({.max_batch_spans = 4, .max_batch_delay = absl::Hours(1)});
  Record(3);
  tracer_->Shutdown(MonotonicNow() + kPatience);
  EXPECT_EQ(observer_->num_exported(), 3u);
  Record(2);
  EXPECT_EQ(observer_->num_dropped(DropReason::kShutdown), 2u);
  tracer_->Shutdown(MonotonicNow() + kPatience);
}

TEST_F(OtlpExporterTest, ShuttingDownSendsMoreThanABatch) {
  constexpr int kNumSpans = 1000;
  collector_.SetStuck(true);
  Open({.max_batch_spans = 64, .max_batch_delay = absl::Milliseconds(1)});
  Record(kNumSpans);
  ASSERT_TRUE(collector_.WaitForCalls(1));
  std::thread stopper([&] { tracer_->Shutdown(MonotonicNow() + kPatience); });
  collector_.SetStuck(false);
  stopper.join();
  EXPECT_EQ(observer_->num_exported(), uint64_t{kNumSpans});
}

TEST_F(OtlpExporterTest, ShuttingDownDoesNotWaitForACollectorThatHangs) {
  collector_.SetStuck(true);
  Open({.max_batch_spans = 1, .max_batch_delay = absl::Milliseconds(1), .timeout = absl::Hours(1)});
  Record(6);
  ASSERT_TRUE(collector_.WaitForCalls(1));
  tracer_->Shutdown(MonotonicNow() + absl::Milliseconds(200));
  EXPECT_EQ(observer_->num_dropped(DropReason::kShutdown), 6u);
}

TEST_F(OtlpExporterTest, ShuttingDownDoesNotWaitForACollectorThatIsDown) {
  port_ = collector_.Open();
  collector_.Close();
  Open({.max_batch_spans = 2, .max_batch_delay = absl::Milliseconds(1), .first_backoff = absl::Hours(1)});
  Record(7);
  while (observer_->states().empty()) absl::SleepFor(absl::Milliseconds(5));
  tracer_->Shutdown(MonotonicNow() + absl::Hours(1));
  EXPECT_EQ(observer_->num_dropped(DropReason::kShutdown), 7u);
}

}  // namespace
}  // namespace maxsim::tracing
