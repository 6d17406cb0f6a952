// Cuts a collection into partitions, and puts partitions together, without a look at what documents hold: rows, scales,
// ids and payloads stay as they are, and token bytes are read once and written once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/build/builder.h"
#include "collection/manifest.h"

namespace maxsim::collection {

struct RepartitionOptions {
  std::string output;
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
  std::string created_by = "maxsim-shard";
};

// Returns the folder in `output` of partition `index` of `count` that a build or SplitCollection makes of `slots`:
// "partition-0-of-3" where these are all slots, and else, since a part of a part is another part of the whole, the
// range of its own slots, "slots-0-682".
std::string PartitionFolderName(const std::string& output, const SlotRange& slots, int32_t index, int32_t count);

// Returns the folders and slots of all `count` of them. 1 <= count <= slots.size().
std::vector<PartitionFolder> PartitionFolders(const std::string& output, const SlotRange& slots, int32_t count);

// Cuts the collection in `folder`, whole or a partition, into `count` partitions, 2 to as many as it has slots, in
// folders of their own in options.output (PartitionFolders). They have its name, generation, encoder and order, and are
// published as BuildPartitions does. Returns their manifests.
//
// What both functions read must be all in shards: FAILED_PRECONDITION for a live collection whose log has writes that
// no shard has, or that is open in a server. The result is live as well then, with a new log behind the same sequence;
// clients' versions of ids stay behind. Checksums are verified (DATA_LOSS). Other errors are those of BuildPartitions.
absl::StatusOr<std::vector<Manifest>> SplitCollection(const std::string& folder, int32_t count,
                                                      const RepartitionOptions& options,
                                                      const BuildObserver& observer = nullptr);

// Puts partitions together, in the order of positions, into the collection in options.output, which is a partition, or
// whole where they have all slots. So what SplitCollection made of a collection comes back with the same bytes of
// tokens, ids and payloads. INVALID_ARGUMENT for fewer than two folders or a whole collection; FAILED_PRECONDITION,
// naming two of them, for slots that overlap or do not adjoin, and for another name, dimension, storage, rotation, type
// of ids, encoder or generation. Live partitions are compacted one by one, so that their generations may differ: the
// result has the newest.
absl::StatusOr<Manifest> MergeCollections(const std::vector<std::string>& folders, const RepartitionOptions& options,
                                          const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
