// Decides which neighbouring shards a compaction joins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace maxsim::collection {

// A shard of the previous generation or, as the last member, the documents from the log.
struct GroupMember {
  int64_t num_bytes = 0;    // of its live documents
  bool is_written = false;  // it must be written, because it is new or has too many tombstones
};

// Neighbouring members that are merged and written as one shard, or as several if one would be too large.
struct ShardGroup {
  size_t begin = 0;  // members [begin, end)
  size_t end = 0;
  int64_t num_bytes = 0;
  bool is_written = false;  // if not, the group is one shard, which is kept
};

// Joins two neighbours that must both be written anyway. Also joins neighbours that each must be written or are smaller
// than a quarter of `max_shard_bytes`, if the first is less than twice as large as the second. Afterwards each small
// shard is at most half as large as the one before it. So the number of small shards, and how often a document is
// rewritten, grow logarithmically with the number of writes.
std::vector<ShardGroup> GroupShards(absl::Span<const GroupMember> members, int64_t max_shard_bytes);

}  // namespace maxsim::collection
