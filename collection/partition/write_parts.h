// Writes the results of a split, a merge (repartition.h) or an assembly (assemble.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/stop.h"
#include "collection/build/builder.h"
#include "collection/manifest.h"
#include "collection/partition/part_sources.h"

namespace maxsim::collection {

struct WritePartsOptions {
  // If the results are not live: BuildOptions::folder of BuildPartitions. Otherwise ignored.
  std::string folder;
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
  std::string created_by;
  const StopSignal* stop = nullptr;  // must outlive the call
};

// Writes each document of the sources into the target that has its slot, and returns the targets' manifests. All writes
// must be merged into the sources' shards. The slots of the sources (StoredCollection::slots) must not overlap, and
// together they must be the slots of all targets. Sets the sources' max_position (part_logs.h).
//
// If no source is live, publishes the results as BuildPartitions does. Otherwise the results are live: each gets a log
// (PartLogs), and a folder that must not exist yet and appears complete or not at all. If one of several folders cannot
// be renamed, the error says how many were published.
//
// Returns FAILED_PRECONDITION if a target is a source's folder, ALREADY_EXISTS if the folder of a live result exists,
// DATA_LOSS for damaged files, the errors of BuildPartitions and PartLogs, and that of `options.stop`.
absl::StatusOr<std::vector<Manifest>> WriteParts(PartSources& sources, absl::Span<const PartitionFolder> targets,
                                                 const WritePartsOptions& options, const BuildObserver& observer);

}  // namespace maxsim::collection
