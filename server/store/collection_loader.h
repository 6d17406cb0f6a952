// Loads a generation of a collection from its folder: plan, reservation, shards, devices, id index.
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
  const Collection* served = nullptr;  // what a reload replaces, for messages; null for a first load
  // Shares the parts of shards that `served` has as well, if they are whole and on devices that answer.
  bool share_parts = false;
  std::shared_ptr<FilterCache> filter_cache = {};  // for a collection with fields; may be null
  collection::Tombstones tombstones;               // of the manifest's shards, or empty
  const StopSignal* stop = nullptr;                // Once stopped, the load ends with its status. May be null.
};

// Loads `manifest`, which was read from request.folder. Before the first shard is read, memory, descriptors and
// mappings are reserved, and the size of every shard is checked. options.load_threads threads open the shards and hand
// them to the backends. The first error ends the load, but if a device is lost and the others go on
// (OnDeviceLoss::kDegrade), the load begins again on those. Blocks.
absl::StatusOr<std::shared_ptr<const Generation>> LoadGeneration(const LoadRequest& request,
                                                                 const collection::Manifest& manifest,
                                                                 DeviceSet* devices, const StoreOptions& options,
                                                                 MemoryLedger* ledger, FileLedger* files);

}  // namespace maxsim::store
