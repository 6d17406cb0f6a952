// The metrics of maxsimd, except those of its process, which process_metrics.h reads. Names, labels and buckets are
// documented in docs/reference/metrics.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/observability/cluster_metrics.h"
#include "server/observability/live_metrics.h"
#include "server/observability/scan_metrics.h"
#include "server/observability/tenant_metrics.h"
#include "server/observability/trace_metrics.h"

namespace maxsim {

// Why a request was not scored.
enum class Rejection {
  kQueueFull,
  kDeadline,
  kCancelled,
  kInvalid,
  kNotFound,
  kDevice,
  kShutdown,
  kQueueTime,    // would have waited for longer than max_queue_time, or until after its deadline
  kDisplaced,    // was accepted, but pushed out of a full queue by a request of another client
  kLoading,      // the server or the collection is loading, or the collection could not be loaded
  kMemory,       // there was no memory for it
  kHttpFull,     // http.max_concurrent_requests were in progress
  kEncoder,      // its texts could not be encoded
  kGeneration,   // the collection is not of the requested generation
  kGroup,        // at a router: a group of servers cannot answer, or the collection cannot be served
  kTenantQuota,  // a quota of the tenant was used up
  kSlots,        // it asks for slots of the collection that this server does not hold
};

inline constexpr size_t kNumRejections = 17;

// Returns the value of the metrics' label: "queue_full" and so on.
std::string_view Name(Rejection reason);

// Calls are counted by status code, OK .. UNAUTHENTICATED.
inline constexpr size_t kNumStatusCodes = 17;

// Counts since the server started. `answers` and the durations cover rerank calls: Rerank, RerankStream and HTTP.
struct MetricsTotals {
  std::array<uint64_t, kNumStatusCodes> answers{};
  std::array<uint64_t, kNumRejections> rejections{};
  // The calls' times by bucket; the last one has no limit.
  std::vector<double> duration_bounds;  // upper limits in seconds
  std::vector<uint64_t> duration_counts;
  uint64_t batches = 0;
  double batch_queries = 0;  // of all batches
  double queue_jobs = 0;     // at the time of reading
  uint64_t encoder_calls = 0;
  uint64_t encoder_cache_hits = 0;
  uint64_t encoder_cache_misses = 0;
  LiveTotals live;
};

// The class is thread-safe; every call is cheap enough for the hot path.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  // Counts a finished call by its code and observes its duration. `method` is "Rerank", "GetInfo", ... or "http".
  void CountRequest(std::string_view method, absl::StatusCode code, absl::Duration duration);
  void CountRejection(Rejection reason);

  // Batching and scoring.
  void ObserveQueueTime(absl::Duration wait);
  void ObserveBatch(int num_queries, uint64_t token_pairs, uint64_t document_tokens, uint64_t document_bytes,
                    double copy_seconds, double kernel_seconds);
  // One device's share of the work for a batch.
  struct DeviceBatch {
    uint64_t token_pairs = 0;
    double copy_seconds = 0;
    double kernel_seconds = 0;
    int64_t streamed_bytes = 0;  // of documents that are not in the device's memory
    int64_t cache_hits = 0;      // listed documents outside of the device's memory that were in its cache
    int64_t cache_misses = 0;    // listed documents outside of the device's memory that were not in its cache
  };
  void ObserveDevice(int device, const DeviceBatch& batch);
  // Sets a device's state. Its series exist from the first call on.
  void SetDevice(int device, bool up, int lanes_busy);
  void SetQueue(int64_t jobs, uint64_t work, uint64_t bytes);
  void SetQueueClients(int64_t clients);
  void SetInFlight(int64_t jobs);
  // SetUnreadAnswerBytes sets how many bytes of answers clients have not read yet. CountUnreadAnswersEnded counts a
  // call that was ended because there were too many.
  void SetUnreadAnswerBytes(uint64_t bytes);
  void CountUnreadAnswersEnded();

  // Sets the number of open connections of the HTTP port.
  void SetHttpConnections(size_t connections);

  // Sets memory in bytes by kind ("device", "pinned", "host") and purpose ("collections", "id_index").
  void SetMemory(std::string_view kind, std::string_view purpose, double bytes);

  // The gauges of a collection that is served.
  struct CollectionGauges {
    struct Resident {
      std::string_view tier;
      int device = 0;  // its number
      uint64_t bytes = 0;
    };
    std::string_view storage;  // "i8"
    std::string residency;     // "gpu+host"
    uint64_t generation = 0;
    uint64_t num_documents = 0;
    uint64_t num_tokens = 0;
    uint64_t num_unavailable = 0;  // documents whose device is lost
    std::vector<Resident> resident;
  };
  // Replaces the gauges of the collection. RemoveCollection removes its series.
  void SetCollection(std::string_view name, const CollectionGauges& gauges);
  void RemoveCollection(std::string_view name);
  // Counts a load or reload of a collection. Its series stay until RemoveCollection.
  void CountReload(std::string_view name, bool ok, absl::Duration duration);

  // Sets the number of the gRPC port's connections in a state: "waiting", "relayed" or "open".
  void SetGrpcConnections(std::string_view state, uint64_t count);
  // Counts a connection of the gRPC port that the gate (server/gate/) ended before a call. `reason` must be one of a
  // few fixed values.
  void CountEndedConnection(std::string_view reason);

  // Counts a call to the encoder. `result` must be one of a few fixed values (docs/reference/metrics.md).
  void CountEncoderCall(std::string_view result, size_t num_texts, absl::Duration duration);
  // Sets the number of texts that wait for a call, and the bytes of all texts that have no answer yet.
  void SetEncoderQueue(size_t num_texts, uint64_t num_bytes);
  // Sets the state of the encoder's circuit breaker: 0 closed, 1 half open, 2 open.
  void SetEncoderBreaker(int state);
  void CountEncoderCacheLookup(bool hit);
  void SetEncoderCacheBytes(uint64_t bytes);

  // The metrics of live collections. The caller of SetCollection and RemoveCollection must also set and remove these.
  LiveMetrics& live() { return *live_; }

  // The metrics of a router.
  ClusterMetrics& cluster() { return *cluster_; }

  // The metrics of scans of codes.
  ScanMetrics& scans() { return *scans_; }

  // The metrics of traces.
  TraceMetrics& traces() { return *traces_; }

  // The metrics by tenant.
  TenantMetrics& tenants() { return *tenants_; }

  // Sets the gauge maxsim_ready to 1 or 0, to agree with /readyz.
  void SetReady(bool ready);

  // Sets the number of collections of the cluster that the server does not have yet.
  void SetAwaited(int64_t count);

  // Sets a GPU's state, which the caller reads from NVML.
  void SetGpu(int device, double utilization_ratio, double temperature_celsius, double power_watts);

  // Returns the totals. Not for the hot path, because it costs as much as a scrape of these series.
  MetricsTotals Totals() const;

  // Returns the time that a device's kernels have taken since the server began, summed over lanes (scoring threads).
  double KernelSeconds(int device) const;

  // Returns the Prometheus text exposition of all series.
  std::string Expose() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
  // These must be destroyed before families_, whose registry holds their series.
  std::unique_ptr<LiveMetrics> live_;
  std::unique_ptr<ClusterMetrics> cluster_;
  std::unique_ptr<ScanMetrics> scans_;
  std::unique_ptr<TraceMetrics> traces_;
  std::unique_ptr<TenantMetrics> tenants_;
};

}  // namespace maxsim
