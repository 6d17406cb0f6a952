// Decides which neighbouring shards a compaction joins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace maxsim::collection {

// A shard of the generation before, or the documents of the log, which stand behind all shards.
struct GroupMember {
  int64_t num_bytes = 0;    // of its documents that are left
  bool is_written = false;  // whatever it is joined to: it is new, or has tombstones that must go
};

// Neighbours that become one shard, or several where that would be too large.
struct ShardGroup {
  size_t begin = 0;  // members [begin, end)
  size_t end = 0;
  int64_t num_bytes = 0;
  bool is_written = false;  // else it is one shard, which is kept
};

// Joins neighbours that are written anyway, and those that are smaller than a quarter of `max_shard_bytes` where the
// one before is less than twice as large as the one behind. So sizes below that quarter at least halve from shard to
// shard: there are logarithmically many in the number of writes. Each time that a document is written again, its shard
// grows by half or more, so that it happens logarithmically often.
std::vector<ShardGroup> GroupShards(absl::Span<const GroupMember> members, int64_t max_shard_bytes);

}  // namespace maxsim::collection
