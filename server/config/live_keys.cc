#include "server/config/live_keys.h"

#include "server/config/key_kinds.h"

namespace maxsim::config {

using namespace key_kinds;

void AddLiveKeys(std::vector<Key>& keys) {
  constexpr uint64_t kTi = uint64_t{1} << 40;
  keys.push_back(Choice<live::LogKind>(
      "live.log", {"local", "nats"}, {live::LogKind::kLocal, live::LogKind::kNats},
      +[](Config& c) -> live::LogKind& { return c.live.log; },
      "What orders the writes of live collections: the log of each, or a stream of NATS JetStream for several servers "
      "(nats.url)."));
  keys.push_back(Bytes(
      "live.segment_bytes", +[](Config& c) -> int64_t& { return c.live.segment_bytes; }, kMi, 64 * kGi,
      "Memory for the token vectors of a live collection's segment on each device, or as much as those before it hold, "
      "if more; a document takes 1 KiB of it at least."));
  keys.push_back(Bytes(
      "live.max_segment_bytes", +[](Config& c) -> int64_t& { return c.live.max_segment_bytes; }, kMi, 4 * kTi,
      "Memory for the token vectors of one collection's segments on each device, where a document takes 1 KiB at "
      "least; codes come on top. A write beyond it gets RESOURCE_EXHAUSTED. The replay of the log at a start is not "
      "bound by "
      "it."));
  keys.push_back(Bytes(
      "live.max_queued_bytes", +[](Config& c) -> int64_t& { return c.live.max_queued_bytes; }, kMi, 64 * kGi,
      "Writes of one collection that wait; one beyond it gets RESOURCE_EXHAUSTED."));
  keys.push_back(Count<int>(
      "live.max_collections", +[](Config& c) -> int& { return c.live.max_collections; }, 1, 4096,
      "Live collections that are open at a time; one beyond it gets RESOURCE_EXHAUSTED. Each takes 7 to 48 "
      "descriptors and 130 lines of /metrics, with live.log nats also 3 threads and a connection."));
  keys.push_back(Duration(
      "live.max_queue_time", +[](Config& c) -> absl::Duration& { return c.live.max_queue_time; }, absl::Hours(1),
      "How long a write may wait until it is written, or with live.log nats until it may be sent; one that would or "
      "does wait longer gets RESOURCE_EXHAUSTED; 0 means no limit."));
  keys.push_back(Bool(
      "live.restore_created", +[](Config& c) -> bool& { return c.live.restore_created; },
      "Serve, after a restart, the collections that CreateCollection made (and UnloadCollection did not take out), as "
      "the file .maxsimd-created.json in each folder of store.allowed_roots lists them."));
  keys.push_back(Bool(
      "live.create_from_cluster", +[](Config& c) -> bool& { return c.live.create_from_cluster; },
      "Create, in the first folder of store.allowed_roots, the live collections that CreateCollection has made on "
      "other "
      "servers with the same nats.stream_prefix. Needs live.log nats and live.restore_created."));
  keys.push_back(Bool(
      "live.compact", +[](Config& c) -> bool& { return c.live.compact; },
      "Compact live collections in the background; without it Admin.CompactCollection and maxsim-shard compact do."));
  keys.push_back(Bytes(
      "live.compact_at_bytes", +[](Config& c) -> int64_t& { return c.live.compact_at_bytes; }, kMi, 4 * kTi,
      "Token vectors, ids and payloads in segments at which a compaction begins."));
  keys.push_back(Share(
      "live.compact_at_tombstone_share", +[](Config& c) -> double& { return c.live.compact_at_tombstone_share; }, 0.01,
      1,
      "Share of a collection's documents that were replaced or deleted at which a compaction begins, with 1,024 of "
      "them at least."));
  keys.push_back(Duration(
      "live.compact_after", +[](Config& c) -> absl::Duration& { return c.live.compact_after; }, absl::Hours(24 * 30),
      "Age of the oldest write that no generation holds at which a compaction begins; 0 means no limit."));
  keys.push_back(Bytes(
      "live.compact_bytes_per_second", +[](Config& c) -> int64_t& { return c.live.compact_bytes_per_second; }, 0, kHuge,
      "Most bytes that a compaction writes per second; 0 means no limit."));
  keys.push_back(Bool(
      "live.refuse_lossy_tokens", +[](Config& c) -> bool& { return c.limits.refuse_lossy_tokens; },
      "Refuse a document that is written in i8 and has a token that becomes zeros, or of whose length rounding takes "
      "more than a quarter; without it these are counted (maxsim_live_lossy_tokens_total)."));
}

}  // namespace maxsim::config
