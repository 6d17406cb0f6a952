#include "server/observability/metrics.h"

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "maxsim_version.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"
#include "server/observability/log_sink.h"
#include "server/observability/metric_families.h"
#include "server/observability/process_metrics.h"

namespace maxsim {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;

using Buckets = Histogram::BucketBoundaries;

// Loading moves gigabytes.
const Buckets& LoadBuckets() {
  static const auto* const buckets = new Buckets{0.01, 0.05, 0.1, 0.5, 1, 5, 15, 30, 60, 120, 300, 600};
  return *buckets;
}

const Buckets& BatchQueryBuckets() {
  static const auto* const buckets = new Buckets{1, 2, 4, 8, 16, 32, 64, 128, 256};
  return *buckets;
}

// The buckets are powers of ten: 32 query tokens x 100 passages of 100 tokens are 3.2e5 pairs, a million documents
// 3.2e9.
const Buckets& TokenPairBuckets() {
  static const auto* const buckets = new Buckets{1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11};
  return *buckets;
}

constexpr std::array kRejections = {
    Rejection::kQueueFull, Rejection::kDeadline, Rejection::kCancelled, Rejection::kInvalid,   Rejection::kNotFound,
    Rejection::kDevice,    Rejection::kShutdown, Rejection::kQueueTime, Rejection::kDisplaced, Rejection::kLoading,
    Rejection::kHttpFull,  Rejection::kMemory,   Rejection::kEncoder,   Rejection::kGeneration};

static_assert(kRejections.size() == kNumRejections);

// What counts as a rerank call among the methods of CountRequest.
bool Reranks(std::string_view method) { return method == "Rerank" || method == "RerankStream" || method == "http"; }

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
  }
  return "other";
}

struct Metrics::Families {
  prometheus::Registry registry;

  Family<Counter>& requests =
      AddCounter(registry, "maxsim_requests_total", "Calls answered, by method and status code.");
  Family<Histogram>& request_duration =
      AddHistogram(registry, "maxsim_request_duration_seconds", "Time from a call's arrival to its answer, by method.");
  Family<Counter>& rejections =
      AddCounter(registry, "maxsim_rejections_total", "Rerank requests that were not scored, by reason.");

  Histogram& queue_duration =
      AddHistogram(registry, "maxsim_queue_duration_seconds", "Time a request waited for the start of its batch.")
          .Add({}, DurationBuckets());
  Histogram& batch_queries =
      AddHistogram(registry, "maxsim_batch_queries", "Queries of a batch.").Add({}, BatchQueryBuckets());
  Histogram& batch_pairs =
      AddHistogram(registry, "maxsim_batch_token_pairs", "Query tokens x document tokens of a batch.")
          .Add({}, TokenPairBuckets());
  Histogram& copy_duration =
      AddHistogram(registry, "maxsim_batch_copy_duration_seconds", "Transfers to and from the device of a batch.")
          .Add({}, DurationBuckets());
  Histogram& kernel_duration =
      AddHistogram(registry, "maxsim_batch_kernel_duration_seconds", "Scoring and selection of a batch.")
          .Add({}, DurationBuckets());
  Counter& scored_pairs =
      AddCounter(registry, "maxsim_scored_token_pairs_total", "Query tokens x document tokens scored.").Add({});
  Counter& scored_tokens = AddCounter(registry, "maxsim_scored_document_tokens_total",
                                      "Document tokens read, counted once for queries that share them.")
                               .Add({});
  Counter& scored_bytes =
      AddCounter(registry, "maxsim_scored_document_bytes_total", "Bytes of the document tokens read.").Add({});
  Gauge& queue_jobs = AddGauge(registry, "maxsim_queue_jobs", "Requests waiting in the queue.").Add({});
  Gauge& queue_work =
      AddGauge(registry, "maxsim_queue_token_pairs", "Work waiting in the queue, in token pairs.").Add({});
  Gauge& queue_bytes =
      AddGauge(registry, "maxsim_queue_bytes", "Host memory held by the requests waiting in the queue.").Add({});
  Gauge& queue_clients =
      AddGauge(registry, "maxsim_queue_clients", "Clients that have requests waiting in the queue.").Add({});
  Gauge& http_connections = AddGauge(registry, "maxsim_http_connections", "Open connections of the HTTP port.").Add({});
  Gauge& in_flight = AddGauge(registry, "maxsim_in_flight_jobs", "Requests being scored.").Add({});
  Gauge& unread_answer_bytes =
      AddGauge(registry, "maxsim_unread_answer_bytes", "Answers that clients have not read yet.").Add({});
  Counter& unread_answers_ended =
      AddCounter(registry, "maxsim_unread_answers_ended_total", "Calls ended because their answers were not read.")
          .Add({});
  Gauge& ready = AddGauge(registry, "maxsim_ready", "1 while the server would answer a request, as /readyz.").Add({});

  Family<Counter>& encoder_calls =
      AddCounter(registry, "maxsim_encoder_calls_total", "Calls to the encoder of texts, by result.");
  Histogram& encoder_duration =
      AddHistogram(registry, "maxsim_encoder_call_duration_seconds", "Duration of calls to the encoder.")
          .Add({}, DurationBuckets());
  Histogram& encoder_texts = AddHistogram(registry, "maxsim_encoder_call_texts", "Texts of one call to the encoder.")
                                 .Add({}, BatchQueryBuckets());
  Gauge& encoder_queue_texts =
      AddGauge(registry, "maxsim_encoder_queue_texts", "Texts that wait for a call to the encoder.").Add({});
  Gauge& encoder_queue_bytes =
      AddGauge(registry, "maxsim_encoder_queue_bytes", "Bytes of texts that the encoder has not answered.").Add({});
  Gauge& encoder_breaker = AddGauge(registry, "maxsim_encoder_breaker_state",
                                    "Circuit breaker of the encoder: 0 closed, 1 half open, 2 open.")
                               .Add({});
  Counter& encoder_cache_hits =
      AddCounter(registry, "maxsim_encoder_cache_hits_total", "Query texts that the encoder's cache had.").Add({});
  Counter& encoder_cache_misses =
      AddCounter(registry, "maxsim_encoder_cache_misses_total", "Query texts that the encoder's cache had not.")
          .Add({});
  Gauge& encoder_cache_bytes =
      AddGauge(registry, "maxsim_encoder_cache_bytes", "Memory of the encoder's cache.").Add({});

  Family<Gauge>& grpc_connections =
      AddGauge(registry, "maxsim_grpc_connections", "Connections of the gRPC port, by state.");
  Family<Counter>& ended_connections = AddCounter(registry, "maxsim_grpc_connections_ended_total",
                                                  "Connections of the gRPC port that were ended before a call.");

  Family<Gauge>& memory = AddGauge(registry, "maxsim_memory_bytes", "Memory held, by kind and purpose.");
  Family<Gauge>& collection_info = AddGauge(registry, "maxsim_collection_info",
                                            "Always 1; storage type and residency of a collection being served.");
  Family<Gauge>& collection_generation =
      AddGauge(registry, "maxsim_collection_generation", "Generation of a collection that is being served.");
  Family<Gauge>& collection_documents = AddGauge(registry, "maxsim_collection_documents", "Documents of a collection.");
  Family<Gauge>& collection_tokens = AddGauge(registry, "maxsim_collection_tokens", "Token vectors of a collection.");
  Family<Gauge>& collection_bytes =
      AddGauge(registry, "maxsim_collection_resident_bytes", "Memory that a collection takes, by tier and device.");
  Family<Gauge>& collection_unavailable =
      AddGauge(registry, "maxsim_collection_unavailable_documents", "Documents that no device which answers has.");
  Family<Counter>& loads = AddCounter(registry, "maxsim_collection_loads_total",
                                      "Loads and reloads of a collection, by result (ok, error).");
  Family<Histogram>& load_duration = AddHistogram(registry, "maxsim_collection_load_duration_seconds",
                                                  "Duration of loads and reloads, failed ones included.");

  Family<Gauge>& device_up = AddGauge(registry, "maxsim_device_up", "1 while a device answers, 0 once it is lost.");
  Family<Gauge>& device_lanes = AddGauge(registry, "maxsim_device_lanes_busy", "Batches that a device works on.");
  Family<Counter>& device_batches =
      AddCounter(registry, "maxsim_device_batches_total", "Batches that a device scored documents of.");
  Family<Counter>& device_pairs = AddCounter(registry, "maxsim_device_scored_token_pairs_total",
                                             "Query tokens x document tokens scored, by device.");
  Family<Counter>& device_copy =
      AddCounter(registry, "maxsim_device_copy_seconds_total", "Time in transfers, summed over lanes.");
  Family<Counter>& device_kernel =
      AddCounter(registry, "maxsim_device_kernel_seconds_total", "Time in scoring and selection, summed over lanes.");
  Family<Counter>& device_streamed = AddCounter(registry, "maxsim_device_streamed_bytes_total",
                                                "Bytes of documents that came from host memory or disk to be scored.");
  Family<Counter>& device_cache_hits = AddCounter(registry, "maxsim_device_cache_hits_total",
                                                  "Listed documents outside of a device's memory that its cache had.");
  Family<Counter>& device_cache_misses = AddCounter(registry, "maxsim_device_cache_misses_total",
                                                    "Listed documents outside of a device's memory that had to come.");

  Family<Gauge>& gpu_utilization =
      AddGauge(registry, "maxsim_gpu_utilization_ratio", "Share of time in which a kernel ran, 0 to 1.");
  Family<Gauge>& gpu_temperature = AddGauge(registry, "maxsim_gpu_temperature_celsius", "Temperature of the GPU.");
  Family<Gauge>& gpu_power = AddGauge(registry, "maxsim_gpu_power_watts", "Power draw of the GPU.");

  // The series of the hot path are kept: Family::Add takes a lock and hashes its labels.
  struct MethodSeries {
    Histogram* duration = nullptr;
    std::array<Counter*, kNumStatusCodes> by_code{};
  };
  Mutex mutex;
  absl::flat_hash_map<std::string, MethodSeries> methods ABSL_GUARDED_BY(mutex);
  std::array<Counter*, kRejections.size()> by_reason{};

  struct CollectionSeries {
    OwnedSeries owned;               // all but `info` and `bytes`
    std::string storage, residency;  // labels of `info`
    Gauge* info = nullptr;
    Gauge* generation = nullptr;
    Gauge* documents = nullptr;
    Gauge* tokens = nullptr;
    Gauge* unavailable = nullptr;
    std::map<std::pair<std::string, int>, Gauge*> bytes;  // by tier and device
    // These are null until the first load.
    Counter* loads_ok = nullptr;
    Counter* loads_failed = nullptr;
    Histogram* load_duration = nullptr;
  };
  absl::flat_hash_map<std::string, CollectionSeries> collections ABSL_GUARDED_BY(mutex);

  struct DeviceSeries {
    Gauge* up = nullptr;
    Gauge* lanes = nullptr;
    Counter* batches = nullptr;
    Counter* pairs = nullptr;
    Counter* copy = nullptr;
    Counter* kernel = nullptr;
    Counter* streamed = nullptr;
    Counter* cache_hits = nullptr;
    Counter* cache_misses = nullptr;
  };
  absl::flat_hash_map<int, DeviceSeries> devices ABSL_GUARDED_BY(mutex);

  DeviceSeries& SeriesOfDevice(int device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    DeviceSeries& series = devices[device];
    if (series.up != nullptr) return series;
    const Labels labels = {{"device", absl::StrCat(device)}};
    series.up = &device_up.Add(labels);
    series.lanes = &device_lanes.Add(labels);
    series.batches = &device_batches.Add(labels);
    series.pairs = &device_pairs.Add(labels);
    series.copy = &device_copy.Add(labels);
    series.kernel = &device_kernel.Add(labels);
    series.streamed = &device_streamed.Add(labels);
    series.cache_hits = &device_cache_hits.Add(labels);
    series.cache_misses = &device_cache_misses.Add(labels);
    return series;
  }
};

Metrics::Metrics()
    : families_(std::make_unique<Families>()),
      live_(std::make_unique<LiveMetrics>(families_->registry)),
      cluster_(std::make_unique<ClusterMetrics>(families_->registry)),
      traces_(std::make_unique<TraceMetrics>(families_->registry)) {
  // A series that exists from the start at zero lets rate() see its first increment.
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
    auto it = families_->methods.find(std::string(method));
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

void Metrics::SetReady(bool ready) { families_->ready.Set(ready ? 1 : 0); }

void Metrics::SetMemory(std::string_view kind, std::string_view purpose, double bytes) {
  families_->memory.Add({{"kind", std::string(kind)}, {"purpose", std::string(purpose)}}).Set(bytes);
}

void Metrics::SetCollection(std::string_view name, const CollectionGauges& gauges) {
  const MutexLock lock(&families_->mutex);
  Families::CollectionSeries& series = families_->collections[std::string(name)];
  if (series.generation == nullptr) {
    const Labels labels = {{"collection", std::string(name)}};
    series.generation = series.owned.Add(families_->collection_generation, labels);
    series.documents = series.owned.Add(families_->collection_documents, labels);
    series.tokens = series.owned.Add(families_->collection_tokens, labels);
    series.unavailable = series.owned.Add(families_->collection_unavailable, labels);
  }
  if (series.info == nullptr || series.storage != gauges.storage || series.residency != gauges.residency) {
    // A generation may be stored in another way than the one before.
    if (series.info != nullptr) families_->collection_info.Remove(series.info);
    series.storage = std::string(gauges.storage);
    series.residency = gauges.residency;
    series.info = &families_->collection_info.Add(
        {{"collection", std::string(name)}, {"storage", series.storage}, {"residency", series.residency}});
    series.info->Set(1);
  }
  series.generation->Set(static_cast<double>(gauges.generation));
  series.documents->Set(static_cast<double>(gauges.num_documents));
  series.tokens->Set(static_cast<double>(gauges.num_tokens));
  series.unavailable->Set(static_cast<double>(gauges.num_unavailable));
  // Places that it has left go.
  std::map<std::pair<std::string, int>, Gauge*> left = std::exchange(series.bytes, {});
  for (const CollectionGauges::Resident& resident : gauges.resident) {
    const std::pair<std::string, int> place(resident.tier, resident.device);
    Gauge* gauge = nullptr;
    if (const auto known = left.find(place); known != left.end()) {
      gauge = known->second;
      left.erase(known);
    } else {
      gauge = &families_->collection_bytes.Add(
          {{"collection", std::string(name)}, {"tier", place.first}, {"device", absl::StrCat(place.second)}});
    }
    gauge->Set(static_cast<double>(resident.bytes));
    series.bytes[place] = gauge;
  }
  for (const auto& [place, gauge] : left) families_->collection_bytes.Remove(gauge);
}

void Metrics::RemoveCollection(std::string_view name) {
  const MutexLock lock(&families_->mutex);
  const auto it = families_->collections.find(std::string(name));
  if (it == families_->collections.end()) return;
  const Families::CollectionSeries& series = it->second;
  if (series.info != nullptr) families_->collection_info.Remove(series.info);
  for (const auto& [place, gauge] : series.bytes) families_->collection_bytes.Remove(gauge);
  families_->collections.erase(it);
}

void Metrics::CountReload(std::string_view name, bool ok, absl::Duration duration) {
  const MutexLock lock(&families_->mutex);
  Families::CollectionSeries& series = families_->collections[std::string(name)];
  if (series.load_duration == nullptr) {
    // Both series exist from the first load on, at zero, since increase() over one that begins at 1 misses the first
    // failure.
    const Labels labels = {{"collection", std::string(name)}};
    series.loads_ok = series.owned.Add(families_->loads, {{"collection", std::string(name)}, {"result", "ok"}});
    series.loads_failed = series.owned.Add(families_->loads, {{"collection", std::string(name)}, {"result", "error"}});
    series.load_duration = series.owned.Add(families_->load_duration, labels, LoadBuckets());
  }
  (ok ? series.loads_ok : series.loads_failed)->Increment();
  series.load_duration->Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::SetGpu(int device, double utilization_ratio, double temperature_celsius, double power_watts) {
  const Labels labels = {{"device", absl::StrCat(device)}};
  families_->gpu_utilization.Add(labels).Set(utilization_ratio);
  families_->gpu_temperature.Add(labels).Set(temperature_celsius);
  families_->gpu_power.Add(labels).Set(power_watts);
}

namespace {

uint64_t CountOf(const Counter& counter) { return static_cast<uint64_t>(counter.Value()); }

// Adds a histogram's values by bucket; what it collects counts those of lower buckets too.
void AddBuckets(const Histogram& histogram, std::vector<uint64_t>& counts) {
  uint64_t below = 0;
  size_t idx = 0;
  for (const prometheus::ClientMetric::Bucket& bucket : histogram.Collect().histogram.bucket) {
    if (idx < counts.size()) counts[idx++] += bucket.cumulative_count - below;
    below = bucket.cumulative_count;
  }
}

// Counted where lines are dropped, below everything that knows of metrics.
prometheus::MetricFamily DroppedLogLines() {
  prometheus::MetricFamily family;
  family.name = "maxsim_log_lines_dropped_total";
  family.help = "Log lines that were not written, by reason.";
  family.type = prometheus::MetricType::Counter;
  for (const auto& [reason, name] : {std::pair(log::DropReason::kReader, "reader"), {log::DropReason::kRate, "rate"}}) {
    prometheus::ClientMetric metric;
    metric.label.push_back({"reason", name});
    metric.counter.value = static_cast<double>(log::DroppedLines(reason));
    family.metric.push_back(std::move(metric));
  }
  return family;
}

}  // namespace

MetricsTotals Metrics::Totals() const {
  MetricsTotals totals;
  totals.duration_bounds = DurationBuckets();
  totals.duration_counts.assign(totals.duration_bounds.size() + 1, 0);
  {
    const MutexLock lock(&families_->mutex);
    for (const auto& [method, series] : families_->methods) {
      if (!Reranks(method)) continue;
      for (size_t code = 0; code < kNumStatusCodes; ++code) {
        if (series.by_code[code] != nullptr) totals.answers[code] += CountOf(*series.by_code[code]);
      }
      if (series.duration != nullptr) AddBuckets(*series.duration, totals.duration_counts);
    }
  }
  for (size_t reason = 0; reason < kNumRejections; ++reason) {
    totals.rejections[reason] = CountOf(*families_->by_reason[reason]);
  }
  const prometheus::ClientMetric::Histogram batches = families_->batch_queries.Collect().histogram;
  totals.batches = batches.sample_count;
  totals.batch_queries = batches.sample_sum;
  totals.queue_jobs = families_->queue_jobs.Value();
  totals.encoder_calls = families_->encoder_duration.Collect().histogram.sample_count;
  totals.encoder_cache_hits = CountOf(families_->encoder_cache_hits);
  totals.encoder_cache_misses = CountOf(families_->encoder_cache_misses);
  totals.live = live_->Totals();
  return totals;
}

double Metrics::KernelSeconds(int device) const {
  const MutexLock lock(&families_->mutex);
  const auto it = families_->devices.find(device);
  return it == families_->devices.end() || it->second.kernel == nullptr ? 0.0 : it->second.kernel->Value();
}

std::string Metrics::Expose() const {
  std::vector<prometheus::MetricFamily> all = families_->registry.Collect();
  all.push_back(DroppedLogLines());
  for (prometheus::MetricFamily& family : CollectProcessMetrics()) all.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace maxsim
