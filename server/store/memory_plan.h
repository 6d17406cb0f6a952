// Plans the memory of a collection before its first byte is read: how much loading takes, and where it goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "collection/manifest.h"
#include "kernels/maxsim.h"
#include "server/store/collection_store.h"
#include "server/store/memory/device_set.h"
#include "server/store/memory/memory_ledger.h"
#include "server/store/memory/placement.h"
#include "server/store/memory/residency.h"

namespace maxsim::store {

struct MemoryPlan {
  Placement placement;          // of manifest.shards
  MemoryLedger::Memory memory;  // when the plan was made
  bool replicated = false;      // every shard is on every device
  int code_planes = 0;          // of codes that every replica has

  bool fits() const;
};

// Returns the memory that one replica of a shard takes in `tier` (not kAuto). On GPUs the backend says how much. On the
// CPU backend, whose memory is the host's, it is the whole file for kHost, and all of it but the tokens for kDisk.
// `code_planes` planes of the collection's codes are added to that.
MemoryNeed ShardNeed(const DeviceSet& devices, const collection::Manifest& manifest,
                     const collection::ShardEntry& entry, Residency tier, int code_planes = 0);

// Returns an upper bound of the host memory for the index of a shard's fields, which is built while the shard loads; 0
// if the collection has no fields. ShardNeed includes it on the CPU backend. On GPUs it does not depend on the number
// of replicas, and MemoryPlan::placement.demand includes it in addition to the shards' needs.
uint64_t FieldIndexBytes(const collection::Manifest& manifest, const collection::ShardEntry& entry);

// Returns the memory of each device that all lanes together take for scans of a shard's codes
// (DeviceSet::ScanBytesNeeded). It is shared by all shards of all collections.
uint64_t ScanNeed(const DeviceSet& devices, const collection::Manifest& manifest, const collection::ShardEntry& entry,
                  int code_planes);

// Returns the sum of ShardNeed over all shards of a collection, saturating.
MemoryNeed CollectionNeed(const DeviceSet& devices, const collection::Manifest& manifest, Residency tier,
                          int code_planes = 0);

// Decides where the shards and codes of the collection go in `memory`. Codes come first, because every request reads
// them: the plan has the most planes that fit, with the memory for their scans, while the originals are in their
// slowest tier. Then the originals get what is left. A plan that does not fit is returned too: fits() tells. Errors are
// FAILED_PRECONDITION for a residency that this backend cannot serve, or a dimension beyond options.max_dim;
// UNAVAILABLE when all devices are lost.
absl::StatusOr<MemoryPlan> PlanMemory(const DeviceSet& devices, const collection::Manifest& manifest,
                                      Residency residency, Replication replication, const StoreOptions& options,
                                      MemoryLedger::Memory memory);

// Formats the plan as a table for people: one line per shard (documents, tokens, bytes, tier, device), totals, free
// memory, and how long a scan of the codes is expected to take if a model says so. Shards beyond `max_shards` are
// counted in one line.
std::string FormatMemoryPlan(const DeviceSet& devices, const collection::Manifest& manifest, const MemoryPlan& plan,
                             size_t max_shards = SIZE_MAX);

}  // namespace maxsim::store
