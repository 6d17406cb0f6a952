#include "server/observability/live_metrics.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "prometheus/counter.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"
#include "prometheus/registry.h"
#include "server/observability/metric_registration.h"

namespace maxsim {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;

using Buckets = Histogram::BucketBoundaries;

constexpr std::array kKinds = {WriteKind::kUpsert, WriteKind::kDelete};
static_assert(kKinds.size() == kNumWriteKinds);
constexpr std::array kOutcomes = {WriteOutcome::kApplied, WriteOutcome::kStale, WriteOutcome::kNotFound,
                                  WriteOutcome::kFailed};
static_assert(kOutcomes.size() == kNumWriteOutcomes);
constexpr std::array kResults = {CompactionResult::kOk, CompactionResult::kStopped, CompactionResult::kFailed};
static_assert(kResults.size() == kNumCompactionResults);

// A sync takes tens of microseconds on a disk with a battery-backed cache, milliseconds on other disks, and seconds
// over a network. The buckets cover that range in factors of about 2.
const Buckets& WriteBuckets() {
  static const auto* const buckets = new Buckets{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3,
                                                 50e-3, 0.1,    0.25,   0.5,    1,    2.5,    5,    10};
  return *buckets;
}

const Buckets& CommitBuckets() {
  static const auto* const buckets = new Buckets{1, 4, 16, 64, 256, 1024, 4096, 16384};
  return *buckets;
}

// A compaction writes some megabytes to a terabyte, at live.compact_bytes_per_second, so it takes a fraction of a
// second to hours.
const Buckets& CompactionBuckets() {
  static const auto* const buckets = new Buckets{0.1, 1, 5, 15, 60, 300, 900, 1800, 3600, 7200};
  return *buckets;
}

// Returns the labels of a collection's series. The collection's name must be one that CheckCollectionName allows.
Labels LabelsOf(std::string_view collection) { return {{"collection", std::string(collection)}}; }

}  // namespace

std::string_view Name(WriteKind kind) { return kind == WriteKind::kUpsert ? "upsert" : "delete"; }

std::string_view Name(WriteOutcome outcome) {
  switch (outcome) {
    case WriteOutcome::kApplied:
      return "applied";
    case WriteOutcome::kStale:
      return "stale";
    case WriteOutcome::kNotFound:
      return "not_found";
    case WriteOutcome::kFailed:
      return "failed";
  }
  return "other";
}

std::string_view Name(CompactionResult result) {
  switch (result) {
    case CompactionResult::kOk:
      return "ok";
    case CompactionResult::kStopped:
      return "stopped";
    case CompactionResult::kFailed:
      return "error";
  }
  return "other";
}

std::string_view Name(StreamOutcome outcome) {
  switch (outcome) {
    case StreamOutcome::kApplied:
      return "applied";
    case StreamOutcome::kOtherPartition:
      return "other_partition";
    case StreamOutcome::kStale:
      return "stale";
    case StreamOutcome::kNotFound:
      return "not_found";
    case StreamOutcome::kUnreadable:
      return "unreadable";
    case StreamOutcome::kLate:
      return "late";
  }
  return "other";
}

struct LiveMetrics::Families {
  explicit Families(prometheus::Registry& of) : registry(of) {
    totals.visible_bounds = WriteBuckets();
    totals.visible_counts.assign(totals.visible_bounds.size() + 1, 0);
  }

  prometheus::Registry& registry;

  Family<Counter>& writes =
      AddCounter(registry, "maxsim_live_writes_total", "Writes to live collections, by kind and outcome.");
  Family<Counter>& lossy_tokens = AddCounter(registry, "maxsim_live_lossy_tokens_total",
                                             "Token vectors of upserts that i8 storage keeps too little of, by kind.");
  Family<Histogram>& durable = AddHistogram(registry, "maxsim_live_write_durable_seconds",
                                            "Time from a request's arrival until its writes were on the disk.");
  Family<Histogram>& visible = AddHistogram(registry, "maxsim_live_write_visible_seconds",
                                            "Time from a request's arrival until searches see its writes.");
  Family<Histogram>& commit_writes =
      AddHistogram(registry, "maxsim_live_commit_writes", "Writes of one group commit to the log.");
  Family<Histogram>& commit_duration = AddHistogram(registry, "maxsim_live_commit_duration_seconds",
                                                    "Time of one group commit to the log, with its sync.");

  Family<Counter>& compactions =
      AddCounter(registry, "maxsim_live_compactions_total", "Compactions of live collections, by result.");
  Family<Histogram>& compaction_duration = AddHistogram(
      registry, "maxsim_live_compaction_duration_seconds",
      "Time of compactions, until their generation was served; of those that failed or were stopped, too.");
  Family<Counter>& compaction_bytes =
      AddCounter(registry, "maxsim_live_compaction_written_bytes_total", "Bytes of shards that compactions wrote.");
  Family<Gauge>& compacting =
      AddGauge(registry, "maxsim_live_compacting", "1 while a compaction of the collection runs.");

  Family<Gauge>& accepts_writes =
      AddGauge(registry, "maxsim_live_accepts_writes", "1 while the collection takes writes, 0 while it cannot.");
  Family<Gauge>& sequence = AddGauge(registry, "maxsim_live_sequence", "Number of the last write that searches see.");
  Family<Gauge>& compacted = AddGauge(registry, "maxsim_live_compacted_sequence",
                                      "Number of the last write that the generation's shards hold.");
  Family<Gauge>& log_bytes = AddGauge(registry, "maxsim_live_log_bytes", "Size of the log on the disk.");
  Family<Gauge>& segments = AddGauge(registry, "maxsim_live_segments", "Segments of a live collection.");
  Family<Gauge>& segment_bytes =
      AddGauge(registry, "maxsim_live_segment_bytes",
               "Memory for token vectors in segments, used or not, on one device; their codes come on top.");
  Family<Gauge>& segment_used_bytes = AddGauge(
      registry, "maxsim_live_segment_used_bytes",
      "Memory of segments that documents use on one device: their token vectors, or 1 KiB each where that is more.");
  Family<Gauge>& segment_limit =
      AddGauge(registry, "maxsim_live_segment_limit_bytes", "What segments of one collection may take on one device.");
  Family<Gauge>& changed = AddGauge(registry, "maxsim_live_changed_documents",
                                    "Documents in segments that were not replaced or deleted since.");
  Family<Gauge>& deleted = AddGauge(registry, "maxsim_live_deleted_documents",
                                    "Documents of shards and segments that were replaced or deleted.");

  Family<Counter>& stream_messages =
      AddCounter(registry, "maxsim_live_stream_messages_total",
                 "Messages of the stream that a live collection follows, by what became of them.");
  Family<Histogram>& stream_publish =
      AddHistogram(registry, "maxsim_live_stream_publish_seconds",
                   "Time from the sending of a write until the stream acknowledged it.");
  Family<Gauge>& stream_connected = AddGauge(registry, "maxsim_live_stream_connected",
                                             "1 while the collection follows its stream, 0 while it cannot.");
  Family<Gauge>& stream_lag =
      AddGauge(registry, "maxsim_live_stream_lag", "Messages of the stream that the collection has not applied yet.");
  Family<Gauge>& stream_retention = AddGauge(
      registry, "maxsim_live_stream_retention_margin_ratio",
      "Share of the stream's limits that is left before it drops a message that the collection has not applied.");

  // The series are cached, because Family::Add takes a lock and hashes its labels.
  struct Series {
    OwnedSeries owned;
    std::array<std::array<Counter*, kNumWriteOutcomes>, kNumWriteKinds> writes{};
    std::array<Counter*, kNumCompactionResults> compactions{};
    Counter *zeroed_tokens, *coarse_tokens;
    Histogram *durable, *visible, *commit_writes, *commit_duration, *compaction_duration;
    Counter* compaction_bytes;
    Gauge *compacting, *accepts_writes, *sequence, *compacted, *log_bytes, *segments, *segment_bytes,
        *segment_used_bytes, *changed;
    Gauge* deleted = nullptr;  // made last, so null if memory ran out before
    // Null if the collection follows no stream.
    std::array<Counter*, kNumStreamOutcomes> stream_messages{};
    Histogram* stream_publish = nullptr;
    Gauge* stream_connected = nullptr;
    Gauge* stream_lag = nullptr;
    Gauge* stream_retention = nullptr;
  };
  mutable Mutex mutex;
  std::map<std::string, Series> collections ABSL_GUARDED_BY(mutex);
  LiveTotals totals ABSL_GUARDED_BY(mutex);

  Series& SeriesOf(std::string_view collection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Series& StreamSeriesOf(std::string_view collection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Count(Series& series, const WriteCounts& writes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

LiveMetrics::Families::Series& LiveMetrics::Families::SeriesOf(std::string_view collection) {
  Series& series = collections[std::string(collection)];
  if (series.deleted != nullptr) return series;
  OwnedSeries& owned = series.owned;
  const Labels labels = LabelsOf(collection);
  for (const WriteKind kind : kKinds) {
    for (const WriteOutcome outcome : kOutcomes) {
      // An upsert writes the document whether or not the collection has its id, so it never ends with kNotFound.
      if (kind == WriteKind::kUpsert && outcome == WriteOutcome::kNotFound) continue;
      series.writes[static_cast<size_t>(kind)][static_cast<size_t>(outcome)] =
          owned.Add(writes, {{"collection", std::string(collection)},
                             {"kind", std::string(Name(kind))},
                             {"outcome", std::string(Name(outcome))}});
    }
  }
  for (const CompactionResult result : kResults) {
    series.compactions[static_cast<size_t>(result)] =
        owned.Add(compactions, {{"collection", std::string(collection)}, {"result", std::string(Name(result))}});
  }
  series.zeroed_tokens = owned.Add(lossy_tokens, {{"collection", std::string(collection)}, {"kind", "zeroed"}});
  series.coarse_tokens = owned.Add(lossy_tokens, {{"collection", std::string(collection)}, {"kind", "coarse"}});
  series.durable = owned.Add(durable, labels, WriteBuckets());
  series.visible = owned.Add(visible, labels, WriteBuckets());
  series.commit_writes = owned.Add(commit_writes, labels, CommitBuckets());
  series.commit_duration = owned.Add(commit_duration, labels, WriteBuckets());
  series.compaction_duration = owned.Add(compaction_duration, labels, CompactionBuckets());
  series.compaction_bytes = owned.Add(compaction_bytes, labels);
  series.compacting = owned.Add(compacting, labels);
  series.accepts_writes = owned.Add(accepts_writes, labels);
  // The gauge begins at 1: a collection accepts writes until Set says that it does not, and a 0 would trigger an alert.
  series.accepts_writes->Set(1);
  series.sequence = owned.Add(sequence, labels);
  series.compacted = owned.Add(compacted, labels);
  series.log_bytes = owned.Add(log_bytes, labels);
  series.segments = owned.Add(segments, labels);
  series.segment_bytes = owned.Add(segment_bytes, labels);
  series.segment_used_bytes = owned.Add(segment_used_bytes, labels);
  series.changed = owned.Add(changed, labels);
  series.deleted = owned.Add(deleted, labels);
  return series;
}

LiveMetrics::Families::Series& LiveMetrics::Families::StreamSeriesOf(std::string_view collection) {
  Series& series = SeriesOf(collection);
  if (series.stream_retention != nullptr) return series;  // the last one
  OwnedSeries& owned = series.owned;
  const Labels labels = LabelsOf(collection);
  for (size_t outcome = 0; outcome < kNumStreamOutcomes; ++outcome) {
    series.stream_messages[outcome] = owned.Add(
        stream_messages,
        {{"collection", std::string(collection)}, {"result", std::string(Name(static_cast<StreamOutcome>(outcome)))}});
  }
  series.stream_publish = owned.Add(stream_publish, labels, WriteBuckets());
  series.stream_connected = owned.Add(stream_connected, labels);
  series.stream_lag = owned.Add(stream_lag, labels);
  Gauge* const retention = owned.Add(stream_retention, labels);
  // At its initial value of 0, the gauge would trigger the alert on this metric.
  retention->Set(1);
  series.stream_retention = retention;
  return series;
}

void LiveMetrics::Families::Count(Series& series, const WriteCounts& of) {
  for (size_t kind = 0; kind < kNumWriteKinds; ++kind) {
    for (size_t outcome = 0; outcome < kNumWriteOutcomes; ++outcome) {
      const uint64_t count = of.counts[kind][outcome];
      Counter* const counter = series.writes[kind][outcome];
      if (count == 0 || counter == nullptr) continue;
      counter->Increment(static_cast<double>(count));
      totals.writes[outcome] += count;
    }
  }
}

LiveMetrics::LiveMetrics(prometheus::Registry& registry) : families_(std::make_unique<Families>(registry)) {}

LiveMetrics::~LiveMetrics() = default;

void LiveMetrics::Observe(std::string_view collection, const GroupCommit& commit) {
  const MutexLock lock(&families_->mutex);
  Families::Series& series = families_->SeriesOf(collection);
  families_->Count(series, commit.writes);
  if (commit.num_writes > 0) {
    series.commit_writes->Observe(static_cast<double>(commit.num_writes));
    series.commit_duration->Observe(absl::ToDoubleSeconds(commit.log_time));
  }
  LiveTotals& totals = families_->totals;
  for (const GroupCommit::Request& request : commit.requests) {
    const double visible = absl::ToDoubleSeconds(request.until_visible);
    series.durable->Observe(absl::ToDoubleSeconds(request.until_durable));
    series.visible->Observe(visible);
    const auto bucket = std::lower_bound(totals.visible_bounds.begin(), totals.visible_bounds.end(), visible);
    ++totals.visible_counts[static_cast<size_t>(bucket - totals.visible_bounds.begin())];
  }
}

void LiveMetrics::CountWrites(std::string_view collection, const WriteCounts& writes) {
  const MutexLock lock(&families_->mutex);
  families_->Count(families_->SeriesOf(collection), writes);
}

void LiveMetrics::CountLossyTokens(std::string_view collection, uint64_t num_zeroed, uint64_t num_coarse) {
  const MutexLock lock(&families_->mutex);
  const Families::Series& series = families_->SeriesOf(collection);
  series.zeroed_tokens->Increment(static_cast<double>(num_zeroed));
  series.coarse_tokens->Increment(static_cast<double>(num_coarse));
}

void LiveMetrics::CountCompaction(std::string_view collection, CompactionResult result, absl::Duration duration,
                                  uint64_t bytes_written) {
  const MutexLock lock(&families_->mutex);
  Families::Series& series = families_->SeriesOf(collection);
  series.compactions[static_cast<size_t>(result)]->Increment();
  series.compaction_duration->Observe(absl::ToDoubleSeconds(duration));
  series.compaction_bytes->Increment(static_cast<double>(bytes_written));
}

void LiveMetrics::CountMessages(std::string_view collection, const std::array<uint64_t, kNumStreamOutcomes>& counts) {
  const MutexLock lock(&families_->mutex);
  const Families::Series& series = families_->StreamSeriesOf(collection);
  for (size_t outcome = 0; outcome < kNumStreamOutcomes; ++outcome) {
    if (counts[outcome] > 0) series.stream_messages[outcome]->Increment(static_cast<double>(counts[outcome]));
  }
}

void LiveMetrics::ObservePublish(std::string_view collection, absl::Duration duration) {
  const MutexLock lock(&families_->mutex);
  families_->StreamSeriesOf(collection).stream_publish->Observe(absl::ToDoubleSeconds(duration));
}

void LiveMetrics::Set(std::string_view collection, const LiveGauges& gauges) {
  const MutexLock lock(&families_->mutex);
  const Families::Series& series =
      gauges.stream.has_value() ? families_->StreamSeriesOf(collection) : families_->SeriesOf(collection);
  if (gauges.stream.has_value()) {
    series.stream_connected->Set(gauges.stream->connected ? 1 : 0);
    series.stream_lag->Set(static_cast<double>(gauges.stream->lag));
    series.stream_retention->Set(gauges.stream->retention_margin);
  }
  series.compacting->Set(gauges.is_compacting ? 1 : 0);
  series.accepts_writes->Set(gauges.accepts_writes ? 1 : 0);
  series.sequence->Set(static_cast<double>(gauges.sequence));
  series.compacted->Set(static_cast<double>(gauges.compacted_sequence));
  series.log_bytes->Set(static_cast<double>(gauges.log_bytes));
  series.segments->Set(static_cast<double>(gauges.num_segments));
  series.segment_bytes->Set(static_cast<double>(gauges.segment_bytes));
  series.segment_used_bytes->Set(static_cast<double>(gauges.segment_used_bytes));
  series.changed->Set(static_cast<double>(gauges.num_changed_documents));
  series.deleted->Set(static_cast<double>(gauges.num_deleted_documents));
}

void LiveMetrics::Remove(std::string_view collection) {
  const MutexLock lock(&families_->mutex);
  families_->collections.erase(std::string(collection));
}

void LiveMetrics::SetSegmentLimit(int64_t bytes) { families_->segment_limit.Add({}).Set(static_cast<double>(bytes)); }

LiveTotals LiveMetrics::Totals() const {
  const MutexLock lock(&families_->mutex);
  return families_->totals;
}

}  // namespace maxsim
