// Loads a generation (published state) of a collection from its folder: plans and reserves memory, reads the shards,
// loads them to the devices, and builds the id index.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/folder.h"
#include "base/stop.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"
#include "server/store/collection/collection.h"
#include "server/store/collection/filter_cache.h"
#include "server/store/collection/generation.h"
#include "server/store/collection_store.h"
#include "server/store/memory/device_set.h"
#include "server/store/memory/file_ledger.h"
#include "server/store/memory/memory_ledger.h"
#include "server/store/memory/residency.h"

namespace maxsim::store {

struct LoadRequest {
  std::string name;
  const Folder* folder = nullptr;
  Residency residency = Residency::kAuto;
  Replication replication = Replication::kAuto;
  const Collection* served = nullptr;  // the collection that a reload replaces; null for a first load
  // Whether to reuse a part of `served` if the manifest has the same shard, the part is undamaged, and its devices
  // answer.
  bool share_parts = false;
  std::shared_ptr<FilterCache> filter_cache = {};  // may be null
  collection::Tombstones tombstones;               // of the manifest's shards, or empty
  const StopSignal* stop = nullptr;                // Once stopped, the load ends with its status. May be null.
};

// Loads the generation of `manifest`, which must have been read from request.folder. Reserves memory, descriptors and
// mappings, and checks the size of every shard, before it reads the first one. options.load_threads threads open the
// shards and pass them to the backends. The first error ends the load, with one exception: if a device is lost and
// OnDeviceLoss is kDegrade, the load starts again on the remaining devices. Blocks.
absl::StatusOr<std::shared_ptr<const Generation>> LoadGeneration(const LoadRequest& request,
                                                                 const collection::Manifest& manifest,
                                                                 DeviceSet* devices, const StoreOptions& options,
                                                                 MemoryLedger* ledger, FileLedger* files);

}  // namespace maxsim::store
