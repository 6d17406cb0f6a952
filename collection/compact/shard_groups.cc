#include "collection/compact/shard_groups.h"

namespace maxsim::collection {

std::vector<ShardGroup> GroupShards(absl::Span<const GroupMember> members, int64_t max_shard_bytes) {
  const auto can_join = [&](const ShardGroup& group) {
    return group.is_written || group.num_bytes < max_shard_bytes / 4;
  };
  std::vector<ShardGroup> groups;
  for (size_t idx = 0; idx < members.size(); ++idx) {
    groups.push_back({idx, idx + 1, members[idx].num_bytes, members[idx].is_written});
    while (groups.size() >= 2) {
      ShardGroup& before = groups[groups.size() - 2];
      const ShardGroup& behind = groups.back();
      if (!can_join(before) || !can_join(behind)) break;
      const bool both_written = before.is_written && behind.is_written;
      if (!both_written && before.num_bytes >= 2 * behind.num_bytes) break;
      before = {before.begin, behind.end, before.num_bytes + behind.num_bytes, true};
      groups.pop_back();
    }
  }
  return groups;
}

}  // namespace maxsim::collection
