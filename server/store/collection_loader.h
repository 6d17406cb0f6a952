// From a folder on disk to a served generation: plan, reservation, shards, backend, id index.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/maxsim.h"
#include "server/shard/manifest.h"
#include "server/store/collection.h"
#include "server/store/collection_store.h"
#include "server/store/memory_ledger.h"
#include "server/store/residency.h"

namespace maxsim::store {

// Backend memory one shard takes when it lives in `residency` (not kAuto).
uint64_t ShardBytesNeeded(const Backend& backend, const shard::Manifest& manifest, const shard::ShardEntry& entry,
                          Residency residency);

// The same for all shards, saturating.
uint64_t BytesNeeded(const Backend& backend, const shard::Manifest& manifest, Residency residency);

// Where the collection goes: `residency` itself, or what kAuto comes to (host if `available_bytes` hold it, else disk,
// on the CPU backend). FAILED_PRECONDITION for a residency that this backend cannot serve, or a dimension beyond
// `max_dim`.
absl::StatusOr<Residency> PlaceCollection(const Backend& backend, const shard::Manifest& manifest, Residency residency,
                                          int32_t max_dim, uint64_t available_bytes);

// The memory plan as a table for people: a line a shard (documents, tokens, bytes, tier), totals, what is free.
// Shards beyond `max_shards` are counted in one line.
std::string FormatMemoryPlan(const Backend& backend, const shard::Manifest& manifest, Residency residency,
                             const MemoryLedger::Availability& memory, size_t max_shards = SIZE_MAX);

struct LoadRequest {
  std::string name;
  std::string path;
  Residency residency = Residency::kAuto;
  const Collection* served = nullptr;       // the generation a reload replaces, for messages; null for a first load
  const std::atomic<bool>* stop = nullptr;  // once set, the load ends with UNAVAILABLE; null: never
};

// Loads `manifest`, which was read from request.path. The memory is reserved before the first shard is opened; shards
// are opened and handed to the backend by options.load_threads threads; the first error ends the load. Blocks.
absl::StatusOr<std::shared_ptr<const Collection>> LoadCollection(const LoadRequest& request, shard::Manifest manifest,
                                                                 Backend* backend, const StoreOptions& options,
                                                                 MemoryLedger* ledger);

}  // namespace maxsim::store
