// A thread that sends spans in batches to an OpenTelemetry collector (gRPC).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "server/tracing/endpoint.h"
#include "server/tracing/export_observer.h"
#include "server/tracing/otlp_message.h"
#include "server/tracing/span.h"
#include "server/tracing/span_queue.h"

namespace maxsim::tracing {

struct ExporterOptions {
  Endpoint endpoint = {};
  ServiceIdentity service = {};
  size_t max_queued_spans = 4096;
  // A batch is sent when it has this many spans, or after max_batch_delay. OpenTelemetry's own libraries also send 512
  // spans at a time, but wait for five seconds. One second is better for a person who is looking for the trace.
  size_t max_batch_spans = 512;
  absl::Duration max_batch_delay = absl::Seconds(1);
  absl::Duration timeout = absl::Seconds(10);  // per attempt
  // While the collector is UNAVAILABLE, a batch is tried this many times. The delays between the attempts double from
  // first_backoff: 15 s in all, which is enough for a collector to restart.
  int max_attempts = 5;
  absl::Duration first_backoff = absl::Seconds(1);
};

// The class is thread-safe.
class OtlpExporter final : public SpanSink {
 public:
  using Stub = opentelemetry::proto::collector::trace::v1::TraceService::StubInterface;

  // Starts the thread. The connection is made with the first batch.
  OtlpExporter(const ExporterOptions& options, std::shared_ptr<ExportObserver> observer);
  // Sends spans through `stub` instead of a connection to the options' endpoint.
  OtlpExporter(const ExporterOptions& options, std::shared_ptr<ExportObserver> observer, std::unique_ptr<Stub> stub);
  ~OtlpExporter() override;  // shuts down at once

  void Add(std::unique_ptr<SpanData> span) override;

  // Sends the queued spans until `deadline`, or until a batch fails. Drops the rest.
  void Shutdown(absl::Time deadline) override;

 private:
  using Batch = std::vector<std::unique_ptr<SpanData>>;
  using Request = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;

  void Run();
  void Export(const Batch& batch);
  // Tries to send the batch until the collector has accepted it, and returns OK. If the batch must be dropped, returns
  // the reason.
  absl::Status SendWithRetries(const Request& request, uint64_t num_spans);
  // Makes one attempt. If the result is OK, sets `num_refused` to the number of spans that the collector refused.
  absl::Status Send(const Request& request, uint64_t num_spans, uint64_t* num_refused);
  // Waits for `time`, or until the exporter stops.
  void WaitBeforeRetry(absl::Duration time);
  void Report(const absl::Status& status);
  absl::Duration ToWallClock();

  const ExporterOptions options_;
  const std::shared_ptr<ExportObserver> observer_;
  const std::unique_ptr<Stub> stub_;
  SpanQueue queue_;
  std::atomic<bool> is_stopping_{false};

  // Used only by the thread.
  bool collector_fails_ = false;
  absl::Duration to_wall_clock_;
  bool gives_up_ = false;  // set while stopping: the remaining spans are dropped

  Mutex mutex_;
  ConditionVariable changed_;
  absl::Time stop_deadline_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  grpc::ClientContext* attempt_ ABSL_GUARDED_BY(mutex_) = nullptr;  // in progress
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;                  // the thread has finished its work
  Mutex join_mutex_;
  std::thread thread_ ABSL_GUARDED_BY(join_mutex_);
};

}  // namespace maxsim::tracing
