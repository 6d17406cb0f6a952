#include "server/tracing/otlp_exporter.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/clock.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/thread_name.h"
#include "grpc/support/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "server/tracing/collector_answer.h"

namespace maxsim::tracing {
namespace {

namespace collector = opentelemetry::proto::collector::trace::v1;

// The longest pause before reconnecting. gRPC's default grows to 2 minutes.
constexpr int kMaxReconnectMs = 10'000;

constexpr absl::Duration kLongestStop = absl::Hours(24);  // so that no time overflows the clock

// Times of spans are converted to wall-clock time with a fixed offset. The offset is updated only when it is wrong by
// this much. The wall clock is adjusted by microseconds all the time, and following it would change the order of a
// trace's spans.
constexpr absl::Duration kClockStep = absl::Milliseconds(5);

std::shared_ptr<grpc::Channel> MakeChannel(const Endpoint& endpoint) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  return grpc::CreateCustomChannel(
      Cat("dns:///", endpoint.authority),
      endpoint.is_tls ? grpc::SslCredentials(grpc::SslCredentialsOptions()) : grpc::InsecureChannelCredentials(),
      arguments);
}

DropReason ReasonOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnavailable:
      return DropReason::kUnavailable;
    case absl::StatusCode::kDeadlineExceeded:
      return DropReason::kTimeout;
    default:
      return DropReason::kRefused;
  }
}

}  // namespace

OtlpExporter::OtlpExporter(const ExporterOptions& options, std::shared_ptr<ExportObserver> observer)
    : OtlpExporter(options, std::move(observer), collector::TraceService::NewStub(MakeChannel(options.endpoint))) {}

OtlpExporter::OtlpExporter(const ExporterOptions& options, std::shared_ptr<ExportObserver> observer,
                           std::unique_ptr<Stub> stub)
    : options_(options),
      observer_(std::move(observer)),
      stub_(std::move(stub)),
      queue_(options.max_queued_spans, options.max_batch_spans),
      thread_([this] { Run(); }) {}

OtlpExporter::~OtlpExporter() { Shutdown(absl::InfinitePast()); }

void OtlpExporter::Add(std::unique_ptr<SpanData> span) {
  if (queue_.Push(span)) return;
  observer_->OnDropped(is_stopping_ ? DropReason::kShutdown : DropReason::kQueueFull, 1);
}

void OtlpExporter::Shutdown(absl::Time deadline) {
  const MutexLock join_lock(&join_mutex_);
  if (!thread_.joinable()) return;
  is_stopping_ = true;
  queue_.Close();
  {
    MutexLock lock(&mutex_);
    stop_deadline_ = deadline;
    changed_.NotifyAll();
    const absl::Duration left = std::clamp(deadline - MonotonicNow(), absl::ZeroDuration(), kLongestStop);
    const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(left);
    while (!has_ended_ && changed_.WaitUntil(lock, end)) {
    }
    if (attempt_ != nullptr) attempt_->TryCancel();
  }
  thread_.join();
}

void OtlpExporter::Run() {
  NameThisThread("trace-export");
  const auto delay = absl::ToChronoNanoseconds(options_.max_batch_delay);
  while (true) {
    const bool is_last_look = queue_.is_closed();  // Nothing comes any more.
    Batch batch;
    try {
      batch = queue_.Take(delay);
      if (!batch.empty()) Export(batch);
    } catch (const std::exception&) {
      observer_->OnDropped(DropReason::kMemory, batch.size());
    }
    if (batch.empty() && is_last_look) break;
  }
  const MutexLock lock(&mutex_);
  has_ended_ = true;
  changed_.NotifyAll();
}

void OtlpExporter::Export(const Batch& batch) {
  if (gives_up_) return observer_->OnDropped(DropReason::kShutdown, batch.size());
  const Request request = ToOtlp(options_.service, batch, ToWallClock());
  const absl::Status status = SendWithRetries(request, batch.size());
  if (status.ok()) return;
  gives_up_ = is_stopping_;
  observer_->OnDropped(gives_up_ ? DropReason::kShutdown : ReasonOf(status.code()), batch.size());
}

absl::Status OtlpExporter::SendWithRetries(const Request& request, uint64_t num_spans) {
  absl::Duration backoff = options_.first_backoff;
  for (int attempt = 1;; ++attempt) {
    const bool is_last = attempt >= options_.max_attempts || is_stopping_;
    uint64_t num_refused = 0;
    absl::Status status = Send(request, num_spans, &num_refused);
    Report(status);
    if (status.ok()) {
      if (num_spans > num_refused) observer_->OnExported(num_spans - num_refused);
      if (num_refused > 0) observer_->OnDropped(DropReason::kRefused, num_refused);
      return status;
    }
    if (!absl::IsUnavailable(status) || is_last) return status;
    // If the exporter is stopping, this returns at once, for one last attempt.
    WaitBeforeRetry(backoff);
    backoff *= 2;
  }
}

absl::Status OtlpExporter::Send(const Request& request, uint64_t num_spans, uint64_t* num_refused) {
  grpc::ClientContext context;
  absl::Duration time;
  {
    // Store the attempt while locked, so that Shutdown can cancel it.
    const MutexLock lock(&mutex_);
    time = std::min(options_.timeout, stop_deadline_ - MonotonicNow());
    if (time <= absl::ZeroDuration()) return absl::DeadlineExceededError("the server is shutting down");
    attempt_ = &context;
  }
  // Remove the attempt before its context is destroyed, so that Shutdown cannot find it any more. This must happen even
  // if Export throws because memory runs out.
  const absl::Cleanup forget_attempt = [this] {
    const MutexLock lock(&mutex_);
    attempt_ = nullptr;
  };
  context.set_deadline(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(absl::ToInt64Nanoseconds(time), GPR_TIMESPAN)));
  collector::ExportTraceServiceResponse response;
  const grpc::Status status = stub_->Export(&context, request, &response);
  *num_refused = NumRefused(response, num_spans);
  return CollectorStatus(status);
}

void OtlpExporter::WaitBeforeRetry(absl::Duration time) {
  const auto end = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(time);
  MutexLock lock(&mutex_);
  while (!is_stopping_ && changed_.WaitUntil(lock, end)) {
  }
}

void OtlpExporter::Report(const absl::Status& status) {
  if (status.ok() != collector_fails_) return;
  collector_fails_ = !status.ok();
  observer_->OnCollector(status);
}

absl::Duration OtlpExporter::ToWallClock() {
  const absl::Duration to_wall_clock = absl::Now() - MonotonicNow();
  if (absl::AbsDuration(to_wall_clock - to_wall_clock_) > kClockStep) to_wall_clock_ = to_wall_clock;
  return to_wall_clock_;
}

}  // namespace maxsim::tracing
