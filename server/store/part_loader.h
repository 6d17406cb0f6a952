// Loads the shards of a manifest in parallel: opens and checks their files, and passes their tokens to the backends.
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

// Input of LoadParts. The caller owns the objects that the pointers refer to, and keeps them until LoadParts returns.
struct PartLoadRequest {
  const Folder* folder = nullptr;                  // with the manifest's files
  const collection::Manifest* manifest = nullptr;  // names the shards to load
  const Placement* placement = nullptr;            // of the manifest's shards
  int code_planes = 0;                             // number of planes of codes that each replica gets
  const StopSignal* stop = nullptr;                // Once stopped, the load ends with its status. May be null.
};

// Returns the descriptors and mappings that LoadParts needs for this placement: those that the parts keep, and those
// that each thread needs while it loads: one file at a time or, on GPUs, all code files of a shard.
FileDemand FilesToLoad(const Placement& placement, int code_planes, bool is_gpu, const StoreOptions& options);

// Returns the loaded parts, [shards] in the manifest's order, without their first ordinals. Uses up to
// options.load_threads threads, including the calling one; fewer if the system cannot start more. Blocks. May be called
// from several threads at a time.
//
// `memory` must be a reservation of placement->demand, and `files` one of FilesToLoad, with nothing committed yet. Each
// part takes its share of `memory` and keeps it reserved. When a part is ready, its shares of both are committed.
// Copies of a part share its file and its replicas. The replicas must not outlive the backends of `devices`.
//
// The first error ends the load and frees the parts loaded so far: an error of collection::Shard::Open or of a backend,
// DATA_LOSS for a value that no backend can score, RESOURCE_EXHAUSTED if memory runs out, UNAVAILABLE if a device fails
// (LoadParts then marks it as lost in `devices`), or the status of the stop signal.
absl::StatusOr<std::vector<Part>> LoadParts(const PartLoadRequest& request, DeviceSet* devices,
                                            const StoreOptions& options, Reservation* memory,
                                            FileLedger::Reservation* files);

}  // namespace maxsim::store
