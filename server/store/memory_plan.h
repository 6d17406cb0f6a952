// Plans the memory of a collection before its first shard is read: how many bytes each shard takes, and in which
// memory.
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
  MemoryLedger::Memory memory;  // as of the time of the plan
  bool replicated = false;      // every shard is on every device
  int code_planes = 0;          // of codes in every replica

  bool fits() const;
};

// Returns the memory that one replica of a shard takes in `tier` (not kAuto), including `code_planes` planes (bits per
// value) of codes. On GPUs the backend says how much the shard takes. On the CPU backend the shard takes the size of
// its file for kHost, and this size without the tokens for kDisk.
MemoryNeed ShardNeed(const DeviceSet& devices, const collection::Manifest& manifest,
                     const collection::ShardEntry& entry, Residency tier, int code_planes = 0);

// Returns an upper bound of the host memory for the index of a shard's fields, which is built while the shard loads; 0
// if the collection has no fields. On the CPU backend, ShardNeed includes it. On GPUs there is one index for all
// replicas, so ShardNeed does not include it; MemoryPlan::placement.demand does.
uint64_t FieldIndexBytes(const collection::Manifest& manifest, const collection::ShardEntry& entry);

// Returns how much memory of each device the lanes (scoring threads) together need to scan a shard's codes
// (DeviceSet::ScanBytesNeeded). All shards of all collections share this memory.
uint64_t ScanNeed(const DeviceSet& devices, const collection::Manifest& manifest, const collection::ShardEntry& entry,
                  int code_planes);

// Returns the sum of ShardNeed over all shards of a collection.
MemoryNeed CollectionNeed(const DeviceSet& devices, const collection::Manifest& manifest, Residency tier,
                          int code_planes = 0);

// Decides where the shards and codes of the collection go in `memory`. Codes (compressed token vectors) come first,
// because every request reads them: the plan takes the most planes (bits per value) that fit together with the memory
// for their scans, assuming that the original tokens are in their slowest tier. The original tokens then get the
// remaining memory. May return a plan that does not fit (MemoryPlan::fits). Errors are FAILED_PRECONDITION for a
// residency that this backend cannot serve, or a dimension beyond options.max_dim; UNAVAILABLE when all devices are
// lost.
absl::StatusOr<MemoryPlan> PlanMemory(const DeviceSet& devices, const collection::Manifest& manifest,
                                      Residency residency, Replication replication, const StoreOptions& options,
                                      MemoryLedger::Memory memory);

// Formats the plan as a table for people: one line per shard (documents, tokens, bytes, tier, device), totals, free
// memory, and, if it can be estimated, the time of a scan of the codes. One line gives the number of shards beyond
// `max_shards`.
std::string FormatMemoryPlan(const DeviceSet& devices, const collection::Manifest& manifest, const MemoryPlan& plan,
                             size_t max_shards = SIZE_MAX);

}  // namespace maxsim::store
