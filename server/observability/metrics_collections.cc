// The series of collections. They are removed with their collection.
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "server/observability/metrics.h"
#include "server/observability/metrics_families.h"

namespace maxsim {
namespace {

using prometheus::Gauge;
using prometheus::Labels;

// The buckets reach up to ten minutes, because loading copies gigabytes.
const prometheus::Histogram::BucketBoundaries& LoadBuckets() {
  static const auto* const buckets =
      new prometheus::Histogram::BucketBoundaries{0.01, 0.05, 0.1, 0.5, 1, 5, 15, 30, 60, 120, 300, 600};
  return *buckets;
}

}  // namespace

void Metrics::SetCollection(std::string_view name, const CollectionGauges& gauges) {
  const MutexLock lock(&families_->mutex);
  Families::CollectionSeries& series = families_->collections[std::string(name)];
  if (series.unavailable == nullptr) {  // the last member, which is null if memory ran out in an earlier call
    const Labels labels = {{"collection", std::string(name)}};
    series.generation = series.owned.Add(families_->collection_generation, labels);
    series.documents = series.owned.Add(families_->collection_documents, labels);
    series.tokens = series.owned.Add(families_->collection_tokens, labels);
    series.unavailable = series.owned.Add(families_->collection_unavailable, labels);
  }
  if (series.info == nullptr || series.storage != gauges.storage || series.residency != gauges.residency) {
    // A new generation may have another storage or residency than the previous one.
    if (series.info != nullptr) families_->collection_info.Remove(std::exchange(series.info, nullptr));
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
  // Remove the series of the tiers and devices on which the collection no longer is.
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
    // Make both series on the first load, at zero: if one began at 1, increase() would miss the first failure.
    const Labels labels = {{"collection", std::string(name)}};
    series.loads_ok = series.owned.Add(families_->loads, {{"collection", std::string(name)}, {"result", "ok"}});
    series.loads_failed = series.owned.Add(families_->loads, {{"collection", std::string(name)}, {"result", "error"}});
    series.load_duration = series.owned.Add(families_->load_duration, labels, LoadBuckets());
  }
  (ok ? series.loads_ok : series.loads_failed)->Increment();
  series.load_duration->Observe(absl::ToDoubleSeconds(duration));
}

}  // namespace maxsim
