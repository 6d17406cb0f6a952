// Sends spans to a collector in this process, which fails as it is told.
#include "server/tracing/otlp_exporter.h"

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <grpc/support/time.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/tracing/tracer.h"
#include "tests/support/values/eventually.h"

namespace maxsim::tracing {
namespace {

namespace collector_api = opentelemetry::proto::collector::trace::v1;
using testing::ElementsAre;

const absl::Duration kPatience = absl::FromChrono(test::kTestLimit);

// Keeps what it is sent, and answers with the statuses that it was given, one a call, then with OK.
class Collector : public collector_api::TraceService::Service {
 public:
  // No call uses the members while they go.
  ~Collector() override {
    if (server_ != nullptr) server_->Shutdown(gpr_now(GPR_CLOCK_MONOTONIC));
    server_ = nullptr;
  }

  grpc::Status Export(grpc::ServerContext* context, const collector_api::ExportTraceServiceRequest* request,
                      collector_api::ExportTraceServiceResponse* response) override {
    MutexLock lock(&mutex_);
    ++num_calls_;
    changed_.NotifyAll();
    while (is_stuck_ && !context->IsCancelled()) changed_.WaitFor(lock, std::chrono::milliseconds(5));
    if (!answers_.empty()) {
      const grpc::Status answer = answers_.front();
      answers_.pop_front();
      if (!answer.ok()) return answer;
    }
    requests_.push_back(*request);
    response->mutable_partial_success()->set_rejected_spans(num_rejected_);
    changed_.NotifyAll();
    return grpc::Status::OK;
  }

  // `port` 0 picks a free one; returns the one it has.
  int Open(int port = 0) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    return server_ == nullptr ? 0 : port;
  }
  void Close() {
    server_->Shutdown();
    server_ = nullptr;
  }

  void AnswerWith(std::deque<grpc::Status> answers) {
    const MutexLock lock(&mutex_);
    answers_ = std::move(answers);
  }
  void RejectOfEachCall(int64_t num_spans) {
    const MutexLock lock(&mutex_);
    num_rejected_ = num_spans;
  }
  void SetStuck(bool is_stuck) {
    const MutexLock lock(&mutex_);
    is_stuck_ = is_stuck;
    changed_.NotifyAll();
  }

  int num_calls() {
    const MutexLock lock(&mutex_);
    return num_calls_;
  }
  bool WaitForCalls(int count) {
    const absl::Time end = MonotonicNow() + kPatience;
    MutexLock lock(&mutex_);
    while (num_calls_ < count && MonotonicNow() < end) changed_.WaitFor(lock, std::chrono::milliseconds(50));
    return num_calls_ >= count;
  }
  std::vector<collector_api::ExportTraceServiceRequest> requests() {
    const MutexLock lock(&mutex_);
    return requests_;
  }
  std::vector<opentelemetry::proto::trace::v1::Span> spans() {
    std::vector<opentelemetry::proto::trace::v1::Span> spans;
    for (const auto& request : requests()) {
      for (const auto& span : request.resource_spans(0).scope_spans(0).spans()) spans.push_back(span);
    }
    return spans;
  }

 private:
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<grpc::Status> answers_ ABSL_GUARDED_BY(mutex_);
  std::vector<collector_api::ExportTraceServiceRequest> requests_ ABSL_GUARDED_BY(mutex_);
  int64_t num_rejected_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_stuck_ ABSL_GUARDED_BY(mutex_) = false;
};

class CountingObserver : public ExportObserver {
 public:
  void OnExported(uint64_t num_spans) override {
    const MutexLock lock(&mutex_);
    num_exported_ += num_spans;
    changed_.NotifyAll();
  }
  void OnDropped(DropReason reason, uint64_t num_spans) override {
    const MutexLock lock(&mutex_);
    num_dropped_[static_cast<size_t>(reason)] += num_spans;
    changed_.NotifyAll();
  }
  void OnCollector(const absl::Status& status) override {
    const MutexLock lock(&mutex_);
    states_.push_back(status.code());
  }

  uint64_t num_exported() {
    const MutexLock lock(&mutex_);
    return num_exported_;
  }
  uint64_t num_dropped(DropReason reason) {
    const MutexLock lock(&mutex_);
    return num_dropped_[static_cast<size_t>(reason)];
  }
  std::vector<absl::StatusCode> states() {
    const MutexLock lock(&mutex_);
    return states_;
  }
  // Waits until so many spans have been exported or dropped.
  bool WaitFor(uint64_t num_spans) {
    const absl::Time end = MonotonicNow() + kPatience;
    MutexLock lock(&mutex_);
    while (Total() < num_spans && MonotonicNow() < end) changed_.WaitFor(lock, std::chrono::milliseconds(50));
    return Total() >= num_spans;
  }

 private:
  uint64_t Total() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    uint64_t total = num_exported_;
    for (const uint64_t count : num_dropped_) total += count;
    return total;
  }

  Mutex mutex_;
  ConditionVariable changed_;
  uint64_t num_exported_ ABSL_GUARDED_BY(mutex_) = 0;
  std::array<uint64_t, kDropReasons.size()> num_dropped_ ABSL_GUARDED_BY(mutex_){};
  std::vector<absl::StatusCode> states_ ABSL_GUARDED_BY(mutex_);
};

class OtlpExporterTest : public testing::Test {
 protected:
  void Open(const ExporterOptions& options) {
    if (port_ == 0) port_ = collector_.Open();
    ASSERT_NE(port_, 0);
    ExporterOptions here = options;
    here.endpoint.authority = absl::StrCat("127.0.0.1:", port_);
    here.service = {.name = "unit", .version = "1.2.3", .host = "here", .process_id = 42};
    tracer_ = std::make_unique<Tracer>(std::make_unique<OtlpExporter>(here, observer_), 1.0);
  }

  static ExporterOptions Quick() {
    return {.max_batch_delay = absl::Milliseconds(5), .max_attempts = 5, .first_backoff = absl::Milliseconds(10)};
  }

  void Record(int num_spans) {
    for (int i = 0; i < num_spans; ++i) tracer_->StartSpan("call", SpanKind::kServer, {}, MonotonicNow()).End();
  }

  Collector collector_;
  int port_ = 0;
  std::shared_ptr<CountingObserver> observer_ = std::make_shared<CountingObserver>();
  std::unique_ptr<Tracer> tracer_;
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
  // These times are from the wall clock, and a busy machine may stop the exporter between its two clock reads.
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
  ASSERT_TRUE(collector_.WaitForCalls(1));  // the thread has one span, and the queue none
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
