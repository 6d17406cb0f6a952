#include "server/observability/metrics.h"

#include <array>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "maxsim_version.h"
#include "server/observability/metrics_families.h"

namespace maxsim {
namespace {

using prometheus::Counter;
using prometheus::Histogram;
using prometheus::Labels;

constexpr std::array kRejections = {
    Rejection::kQueueFull,   Rejection::kDeadline, Rejection::kCancelled, Rejection::kInvalid,    Rejection::kNotFound,
    Rejection::kDevice,      Rejection::kShutdown, Rejection::kQueueTime, Rejection::kDisplaced,  Rejection::kLoading,
    Rejection::kHttpFull,    Rejection::kMemory,   Rejection::kEncoder,   Rejection::kGeneration, Rejection::kGroup,
    Rejection::kTenantQuota, Rejection::kSlots};

static_assert(kRejections.size() == kNumRejections);

}  // namespace

std::string_view Name(Rejection reason) {
  switch (reason) {
    case Rejection::kQueueFull:
      return "queue_full";
    case Rejection::kDeadline:
      return "deadline";
    case Rejection::kCancelled:
      return "cancelled";
    case Rejection::kInvalid:
      return "invalid";
    case Rejection::kLoading:
      return "loading";
    case Rejection::kNotFound:
      return "not_found";
    case Rejection::kDevice:
      return "device";
    case Rejection::kShutdown:
      return "shutdown";
    case Rejection::kQueueTime:
      return "queue_time";
    case Rejection::kDisplaced:
      return "displaced";
    case Rejection::kHttpFull:
      return "http_full";
    case Rejection::kMemory:
      return "memory";
    case Rejection::kEncoder:
      return "encoder";
    case Rejection::kGeneration:
      return "generation";
    case Rejection::kGroup:
      return "group";
    case Rejection::kTenantQuota:
      return "tenant_quota";
    case Rejection::kSlots:
      return "slots";
  }
  return "other";
}

Metrics::Metrics()
    : families_(std::make_unique<Families>()),
      live_(std::make_unique<LiveMetrics>(families_->registry)),
      cluster_(std::make_unique<ClusterMetrics>(families_->registry)),
      scans_(std::make_unique<ScanMetrics>(families_->registry)),
      traces_(std::make_unique<TraceMetrics>(families_->registry)),
      tenants_(std::make_unique<TenantMetrics>(families_->registry)) {
  // Make the series now, at zero, so that rate() sees their first increment.
  for (const Rejection reason : kRejections) {
    families_->by_reason[static_cast<size_t>(reason)] =
        &families_->rejections.Add({{"reason", std::string(Name(reason))}});
  }
  AddGauge(families_->registry, "maxsim_build_info", "Always 1; version and commit of this build.")
      .Add({{"version", kVersion}, {"commit", kCommit}})
      .Set(1);
}

Metrics::~Metrics() = default;

void Metrics::CountRequest(std::string_view method, absl::StatusCode code, absl::Duration duration) {
  const auto code_idx = static_cast<size_t>(code) < kNumStatusCodes ? static_cast<size_t>(code)
                                                                    : static_cast<size_t>(absl::StatusCode::kUnknown);
  Histogram* histogram = nullptr;
  Counter* counter = nullptr;
  {
    const MutexLock lock(&families_->mutex);
    auto it = families_->methods.find(method);
    if (it == families_->methods.end()) it = families_->methods.try_emplace(std::string(method)).first;
    Families::MethodSeries& series = it->second;
    if (series.duration == nullptr) {
      series.duration = &families_->request_duration.Add({{"method", std::string(method)}}, DurationBuckets());
    }
    if (series.by_code[code_idx] == nullptr) {
      series.by_code[code_idx] =
          &families_->requests.Add({{"method", std::string(method)},
                                    {"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(code_idx))}});
    }
    histogram = series.duration;
    counter = series.by_code[code_idx];
  }
  counter->Increment();
  histogram->Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::CountRejection(Rejection reason) { families_->by_reason[static_cast<size_t>(reason)]->Increment(); }

void Metrics::ObserveQueueTime(absl::Duration wait) { families_->queue_duration.Observe(absl::ToDoubleSeconds(wait)); }

void Metrics::ObserveBatch(int num_queries, uint64_t token_pairs, uint64_t document_tokens, uint64_t document_bytes,
                           double copy_seconds, double kernel_seconds) {
  families_->batch_queries.Observe(num_queries);
  families_->batch_pairs.Observe(static_cast<double>(token_pairs));
  families_->copy_duration.Observe(copy_seconds);
  families_->kernel_duration.Observe(kernel_seconds);
  families_->scored_pairs.Increment(static_cast<double>(token_pairs));
  families_->scored_tokens.Increment(static_cast<double>(document_tokens));
  families_->scored_bytes.Increment(static_cast<double>(document_bytes));
}

void Metrics::ObserveDevice(int device, const DeviceBatch& batch) {
  const MutexLock lock(&families_->mutex);
  const Families::DeviceSeries& series = families_->SeriesOfDevice(device);
  series.batches->Increment();
  series.pairs->Increment(static_cast<double>(batch.token_pairs));
  series.copy->Increment(batch.copy_seconds);
  series.kernel->Increment(batch.kernel_seconds);
  series.streamed->Increment(static_cast<double>(batch.streamed_bytes));
  series.cache_hits->Increment(static_cast<double>(batch.cache_hits));
  series.cache_misses->Increment(static_cast<double>(batch.cache_misses));
}

void Metrics::SetDevice(int device, bool up, int lanes_busy) {
  const MutexLock lock(&families_->mutex);
  const Families::DeviceSeries& series = families_->SeriesOfDevice(device);
  series.up->Set(up ? 1 : 0);
  series.lanes->Set(lanes_busy);
}

void Metrics::SetQueue(int64_t jobs, uint64_t work, uint64_t bytes) {
  families_->queue_jobs.Set(static_cast<double>(jobs));
  families_->queue_work.Set(static_cast<double>(work));
  families_->queue_bytes.Set(static_cast<double>(bytes));
}

void Metrics::SetQueueClients(int64_t clients) { families_->queue_clients.Set(static_cast<double>(clients)); }

void Metrics::SetHttpConnections(size_t connections) {
  families_->http_connections.Set(static_cast<double>(connections));
}
void Metrics::SetInFlight(int64_t jobs) { families_->in_flight.Set(static_cast<double>(jobs)); }

void Metrics::SetGrpcConnections(std::string_view state, uint64_t count) {
  families_->grpc_connections.Add({{"state", std::string(state)}}).Set(static_cast<double>(count));
}

void Metrics::CountEndedConnection(std::string_view reason) {
  families_->ended_connections.Add({{"reason", std::string(reason)}}).Increment();
}

void Metrics::SetUnreadAnswerBytes(uint64_t bytes) { families_->unread_answer_bytes.Set(static_cast<double>(bytes)); }

void Metrics::CountUnreadAnswersEnded() { families_->unread_answers_ended.Increment(); }

void Metrics::CountEncoderCall(std::string_view result, size_t num_texts, absl::Duration duration) {
  families_->encoder_calls.Add({{"result", std::string(result)}}).Increment();
  families_->encoder_duration.Observe(absl::ToDoubleSeconds(duration));
  families_->encoder_texts.Observe(static_cast<double>(num_texts));
}

void Metrics::SetEncoderQueue(size_t num_texts, uint64_t num_bytes) {
  families_->encoder_queue_texts.Set(static_cast<double>(num_texts));
  families_->encoder_queue_bytes.Set(static_cast<double>(num_bytes));
}

void Metrics::SetEncoderBreaker(int state) { families_->encoder_breaker.Set(state); }

void Metrics::CountEncoderCacheLookup(bool hit) {
  (hit ? families_->encoder_cache_hits : families_->encoder_cache_misses).Increment();
}

void Metrics::SetEncoderCacheBytes(uint64_t bytes) { families_->encoder_cache_bytes.Set(static_cast<double>(bytes)); }

void Metrics::SetAwaited(int64_t count) { families_->awaited.Set(static_cast<double>(count)); }

void Metrics::SetReady(bool ready) { families_->ready.Set(ready ? 1 : 0); }

void Metrics::SetMemory(std::string_view kind, std::string_view purpose, double bytes) {
  families_->memory.Add({{"kind", std::string(kind)}, {"purpose", std::string(purpose)}}).Set(bytes);
}

void Metrics::SetGpu(int device, double utilization_ratio, double temperature_celsius, double power_watts) {
  const Labels labels = {{"device", absl::StrCat(device)}};
  families_->gpu_utilization.Add(labels).Set(utilization_ratio);
  families_->gpu_temperature.Add(labels).Set(temperature_celsius);
  families_->gpu_power.Add(labels).Set(power_watts);
}

}  // namespace maxsim
