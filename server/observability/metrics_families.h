// The families and series of Metrics, for the files that implement it.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/observability/metric_registration.h"
#include "server/observability/metrics.h"

namespace maxsim {

inline const prometheus::Histogram::BucketBoundaries& BatchQueryBuckets() {
  static const auto* const buckets = new prometheus::Histogram::BucketBoundaries{1, 2, 4, 8, 16, 32, 64, 128, 256};
  return *buckets;
}

// The buckets are powers of ten. For a query of 32 tokens, 100 passages of 100 tokens are 3.2e5 pairs, and a million
// such passages are 3.2e9.
inline const prometheus::Histogram::BucketBoundaries& TokenPairBuckets() {
  static const auto* const buckets =
      new prometheus::Histogram::BucketBoundaries{1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11};
  return *buckets;
}

struct Metrics::Families {
  using Counter = prometheus::Counter;
  using Gauge = prometheus::Gauge;
  using Histogram = prometheus::Histogram;
  template <typename Metric>
  using Family = prometheus::Family<Metric>;

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
  Gauge& awaited =
      AddGauge(registry, "maxsim_collections_awaited", "Collections of the cluster that the server does not have yet.")
          .Add({});

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

  // Pointers to the series of the hot path, because Family::Add takes a lock and hashes its labels.
  struct MethodSeries {
    Histogram* duration = nullptr;
    std::array<Counter*, kNumStatusCodes> by_code{};
  };
  Mutex mutex;
  // The maps are std::map, which stays intact if an allocation throws (base/guard.h).
  std::map<std::string, MethodSeries, std::less<>> methods ABSL_GUARDED_BY(mutex);
  std::array<Counter*, kNumRejections> by_reason{};

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
  std::map<std::string, CollectionSeries> collections ABSL_GUARDED_BY(mutex);

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
  std::map<int, DeviceSeries> devices ABSL_GUARDED_BY(mutex);

  DeviceSeries& SeriesOfDevice(int device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    DeviceSeries& series = devices[device];
    // cache_misses, which is set last, is null at the first call, or if memory ran out in an earlier call. Then all
    // series are made; for a series that already exists, Add returns it.
    if (series.cache_misses != nullptr) return series;
    const prometheus::Labels labels = {{"device", absl::StrCat(device)}};
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

}  // namespace maxsim
