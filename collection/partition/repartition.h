// Splits a collection into partitions, and joins partitions. Does not look into documents: rows, scales, ids and
// payloads stay as they are, and token bytes are read once and written once. AssembleLive (assemble.h) does both at the
// same time, for servers of a live collection.
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

// Returns the folder in `output` of partition `index` of `count`, when a build or SplitCollection divides `slots`. If
// these are all slots, the folder is named like "partition-0-of-3". Otherwise its name has the partition's own slots,
// like "slots-0-682", because the index does not say which part of the whole collection it is.
std::string PartitionFolderName(const std::string& output, const SlotRange& slots, int32_t index, int32_t count);

// Returns the folders and slots of `count` partitions. 1 <= count <= slots.size().
std::vector<PartitionFolder> PartitionFolders(const std::string& output, const SlotRange& slots, int32_t count);

// Splits the collection in `folder`, which may be a partition, into `count` partitions (2 to its number of slots). Each
// gets a folder in options.output (PartitionFolders). The partitions have the collection's name, generation, encoder
// and order. They are published like those of BuildPartitions. Returns their manifests.
//
// SplitCollection and MergeCollections need all writes in the shards. They return FAILED_PRECONDITION for a live
// collection whose log has writes that the shards lack, or that is open in a server. Both verify checksums (DATA_LOSS).
// Other errors are those of BuildPartitions.
//
// If the collection is live, the results are live too. Each gets a log of its own (part_logs.h), which follows the same
// stream, continues after the same sequence, and has the clients' versions of the documents and the deleted ids of its
// slots. So a server that loads it follows the stream from there. The folder of a live result must not exist
// (ALREADY_EXISTS), and appears complete or not at all.
absl::StatusOr<std::vector<Manifest>> SplitCollection(const std::string& folder, int32_t count,
                                                      const RepartitionOptions& options,
                                                      const BuildObserver& observer = nullptr);

// Joins partitions, in the order of positions, into the collection in options.output, which is a partition, or whole if
// they have all slots. So the parts from SplitCollection give a collection with the same bytes of tokens, ids and
// payloads as before. INVALID_ARGUMENT for fewer than two folders or a whole collection. FAILED_PRECONDITION, naming
// two of them, if their slots overlap or do not adjoin, or if they differ in name, dimension, storage, rotation, type
// of ids, encoder or generation, or if their logs do not follow one stream. Live partitions are compacted one by one,
// so their generations may differ: the result has the newest. Live partitions of a stream may be at different
// sequences: the result is at the lowest, and lacks documents that were written later until a server has applied the
// stream's messages from there on. Live partitions without a stream numbered their writes independently; the result
// goes on after the highest number.
absl::StatusOr<Manifest> MergeCollections(const std::vector<std::string>& folders, const RepartitionOptions& options,
                                          const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
