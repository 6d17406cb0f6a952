// Exports the contents and the memory of the collections that are served.
#include <set>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "server/service/collection_admin.h"

namespace maxsim::service {
namespace {

LiveGauges GaugesOf(const store::LiveState& state) {
  return {.sequence = state.sequence,
          .compacted_sequence = state.compacted_sequence,
          .num_changed_documents = state.num_changed_documents,
          .num_deleted_documents = state.num_deleted_documents,
          .num_segments = state.num_segments,
          .segment_bytes = state.segment_bytes,
          .segment_used_bytes = state.segment_used_bytes,
          .log_bytes = state.log_bytes,
          .accepts_writes = state.status.ok(),
          .is_compacting = state.is_compacting,
          .stream = state.stream.has_value()
                        ? std::optional<LiveGauges::Stream>({.connected = state.stream->connected,
                                                             .lag = state.lag(),
                                                             .retention_margin = state.stream->retention_margin})
                        : std::nullopt};
}

}  // namespace

void CollectionAdmin::UpdateMetrics() {
  MutexLock lock(&metrics_mutex_);
  std::set<std::string> gone = std::move(exported_);
  exported_.clear();
  double device = 0;
  double host = 0;
  double index = 0;
  int64_t num_awaited = 0;
  for (const store::CollectionStatus& status : store_->List()) {
    num_awaited += status.is_awaited ? 1 : 0;
    if (status.collection == nullptr) continue;
    const store::Collection& collection = *status.collection;
    Metrics::CollectionGauges gauges;
    gauges.storage = Name(collection.storage());
    gauges.residency = collection.tiers();
    gauges.generation = static_cast<uint64_t>(collection.manifest().generation);
    gauges.num_documents = collection.num_documents();
    gauges.num_tokens = collection.num_tokens();
    gauges.num_unavailable = collection.num_unavailable(*devices_);
    for (const store::Collection::TierUsage& share : collection.tier_usage()) {
      gauges.resident.push_back({Name(share.tier), devices_->number(share.device), share.resident_bytes()});
      device += static_cast<double>(share.device_bytes);
      host += static_cast<double>(share.host_bytes);
    }
    metrics_->SetCollection(status.name, gauges);
    if (status.live != nullptr) metrics_->live().Set(status.name, GaugesOf(status.live->state()));
    gone.erase(status.name);
    exported_.insert(status.name);
    index += static_cast<double>(collection.index_bytes());
  }
  for (const std::string& name : gone) {
    metrics_->RemoveCollection(name);
    metrics_->live().Remove(name);
  }
  metrics_->SetAwaited(num_awaited);
  metrics_->SetMemory("host", "id_index", index);
  metrics_->SetMemory(devices_->is_gpu() ? "pinned" : "host", "collections", host);
  if (devices_->is_gpu()) metrics_->SetMemory("device", "collections", device);
}

}  // namespace maxsim::service
