// Loads the shards of a manifest side by side: opens and checks their files, and hands their tokens to the backends.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "base/folder.h"
#include "base/stop.h"
#include "collection/manifest.h"
#include "server/store/collection/part.h"
#include "server/store/collection_store.h"
#include "server/store/memory/device_set.h"
#include "server/store/memory/file_ledger.h"
#include "server/store/memory/memory_ledger.h"
#include "server/store/memory/placement.h"

namespace maxsim::store {

// Input of LoadParts. The caller owns everything that the pointers name, and keeps it until LoadParts returns.
struct PartLoadRequest {
  const Folder* folder = nullptr;                  // has the manifest's files
  const collection::Manifest* manifest = nullptr;  // names the shards that are loaded
  const Placement* placement = nullptr;            // of the manifest's shards
  int code_planes = 0;                             // of codes that each replica gets, of those that the manifest names
  const StopSignal* stop = nullptr;                // Once stopped, the load ends with its status. May be null.
};

// Returns the descriptors and mappings that LoadParts needs for this placement: those that the parts keep, and those of
// each thread, which opens one file at a time, or on GPUs those of a shard's codes.
FileDemand FilesToLoad(const Placement& placement, int code_planes, bool is_gpu, const StoreOptions& options);

// Returns the loaded parts, [shards] in the manifest's order, without their first ordinals. Works with up to
// options.load_threads threads, the calling one among them; fewer where the system has no more. Blocks. May be called
// from several threads at a time.
//
// `memory` must hold placement->demand and `files` FilesToLoad, with nothing committed yet. Each part splits what it
// takes from `memory` and owns that share; both are committed as parts get ready. Copies of a part share its file and
// its replicas, and its replicas must not outlive the backends of `devices`.
//
// The first error ends the load and frees what was loaded: an error of collection::Shard::Open or of a backend,
// DATA_LOSS for a value that no backend can score, RESOURCE_EXHAUSTED if memory runs out, UNAVAILABLE if a device fails
// (`devices` counts it as lost from then on), and the status of the stop signal.
absl::StatusOr<std::vector<Part>> LoadParts(const PartLoadRequest& request, DeviceSet* devices,
                                            const StoreOptions& options, Reservation* memory,
                                            FileLedger::Reservation* files);

}  // namespace maxsim::store
