// Splits a collection into partitions, and joins partitions. Rows, scales, ids and payloads are copied unchanged, and
// token vectors are read once. AssembleLive (assemble.h) does both at once for live collections.
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

// Returns the folder in `output` for part `index` of `count` parts into which `slots` are divided. If `slots` are all
// slots, its name is like "partition-0-of-3". Otherwise its name is like "slots-0-682", with the slots of the part.
std::string PartitionFolderName(const std::string& output, const SlotRange& slots, int32_t index, int32_t count);

// Divides `slots` into `count` partitions. Returns their folders and slots. 1 <= count <= slots.size().
std::vector<PartitionFolder> PartitionFolders(const std::string& output, const SlotRange& slots, int32_t count);

// Splits the collection in `folder`, which may itself be a partition, into `count` partitions (2 to its number of
// slots), each in a folder of options.output (PartitionFolders). They have the collection's name, generation and
// encoder, and keep the order of its documents. Publishes them like BuildPartitions, and returns their manifests.
//
// SplitCollection and MergeCollections return FAILED_PRECONDITION for a live collection whose log has writes that are
// not merged into the shards, or that a server has open. Both verify checksums (DATA_LOSS). Other errors are those of
// BuildPartitions.
//
// If the collection is live, the results are live, too. Each gets its own log (part_logs.h), which follows the same
// stream from the same sequence, and has the versions of the ids in its slots. The folder of a live result must not
// exist (ALREADY_EXISTS), and appears complete or not at all.
absl::StatusOr<std::vector<Manifest>> SplitCollection(const std::string& folder, int32_t count,
                                                      const RepartitionOptions& options,
                                                      const BuildObserver& observer = nullptr);

// Joins partitions into a collection in options.output: a whole collection if they have all slots, otherwise a larger
// partition. Documents are in the order of their positions (positions.h), so joining the results of SplitCollection
// restores the tokens, ids and payloads of the original in its order.
//
// Returns INVALID_ARGUMENT for fewer than two folders or for a folder with a whole collection. Returns
// FAILED_PRECONDITION, naming two folders, if their slots overlap or leave a gap, if they differ in name, dimension,
// storage, rotation, type of ids, encoder or generation, or if their logs do not follow one stream.
//
// Live partitions may have different generations: the result gets the highest. If they follow a stream, they may be at
// different sequences: the result is at the lowest, and a server that loads it applies the later messages again
// (part_logs.h). Without a stream, the result's log goes on after the highest sequence.
absl::StatusOr<Manifest> MergeCollections(const std::vector<std::string>& folders, const RepartitionOptions& options,
                                          const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
