// A trace collector in this process that gives the answers which the test chooses, and an exporter that sends spans to
// it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <grpc/support/time.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/monotonic_clock.h"
#include "base/mutex.h"
#include "server/tracing/otlp_exporter.h"
#include "server/tracing/tracer.h"
#include "tests/support/values/eventually.h"

namespace maxsim::tracing {

namespace collector_api = opentelemetry::proto::collector::trace::v1;

inline const absl::Duration kPatience = absl::FromChrono(test::kTestLimit);

// A trace collector that keeps its requests. It answers each call with the next status that the test gave, and with OK
// when there are none left.
class Collector : public collector_api::TraceService::Service {
 public:
  // Ends all calls first, so that none uses a member that has been destroyed.
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

  // Listens on `port`, or on a free port if `port` is 0. Returns the port.
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
  // Waits until `num_spans` have been exported or dropped. Returns false if that takes too long.
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

}  // namespace maxsim::tracing
