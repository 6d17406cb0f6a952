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

// Neighbours that are joined into one shard, or into several if one would be too large.
struct ShardGroup {
  size_t begin = 0;  // members [begin, end)
  size_t end = 0;
  int64_t num_bytes = 0;
  bool is_written = false;  // if not, the group is one shard, which is kept
};

// Joins neighbours that must be written anyway, and neighbours smaller than a quarter of `max_shard_bytes` if the first
// is less than twice as large as the second. So below that quarter each shard is at most half as large as the one
// before it, and the number of shards is logarithmic in the number of writes. Each time a document is written again,
// its shard grows by half or more, so that this happens logarithmically often.
std::vector<ShardGroup> GroupShards(absl::Span<const GroupMember> members, int64_t max_shard_bytes);

}  // namespace maxsim::collection
