// Writes the results of a split, a merge or an assembly.
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
  // If the results are not live: the folder of the target, or one that holds all of them. Created when it is not there.
  std::string folder;
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
  std::string created_by;
  const StopSignal* stop = nullptr;  // must outlive the call
};

// Writes the documents of the sources into the targets, each those of its slots, and returns the manifests. The shards
// of the sources must hold all writes, and the slots of the sources (StoredCollection::slots) must not overlap and must
// be those of the targets together. Sets the sources' max_position (part_logs.h).
//
// If no source is live, does what BuildPartitions does. Otherwise the results are live: each gets a log (PartLogs), and
// a folder that must not exist yet, which appears complete, or not at all. If one of several cannot be renamed, the
// message says how many have appeared.
//
// Returns FAILED_PRECONDITION if a target is a source's folder, ALREADY_EXISTS if the folder of a live result exists,
// DATA_LOSS for damaged files, the errors of BuildPartitions and PartLogs, and that of `options.stop`.
absl::StatusOr<std::vector<Manifest>> WriteParts(PartSources& sources, absl::Span<const PartitionFolder> targets,
                                                 const WritePartsOptions& options, const BuildObserver& observer);

}  // namespace maxsim::collection
