// Options of live collections: their use of memory, when they are compacted, and which log orders their writes. These
// are the keys live.* and nats.* of the configuration.
#pragma once

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "collection/log/version_memory.h"
#include "server/live/local/nats_options.h"

namespace maxsim::live {

// The log that decides the order and the sequences of writes.
enum class LogKind {
  kLocal,  // the collection's own log
  // A stream of NATS JetStream, which several servers follow; each server's log holds the messages that it has applied.
  kNats,
};

struct LiveOptions {
  LogKind log = LogKind::kLocal;
  NatsOptions nats;  // kNats
  // How long a stream must be missing, or too short, until the collection says that messages are lost (StreamDoubt).
  // After a failover, NATS was seen to report such streams for 9 to 17 s. Not a key of the configuration.
  absl::Duration stream_patience = absl::Minutes(1);

  // The size of a segment's token vectors, on each device that holds the segment. If the existing segments hold more
  // bytes on the device, a new segment gets as many bytes as they hold together, so that there are few segments. The
  // new segment is smaller if max_segment_bytes or the free memory does not allow that size.
  int64_t segment_bytes = int64_t{64} << 20;
  int64_t max_segment_bytes = int64_t{4} << 30;   // of all segments of a collection on one device
  int64_t max_queued_bytes = int64_t{256} << 20;  // of one collection's writes that are not answered yet
  // The longest time that a call may wait in the queue before it is written; 0 for no limit.
  absl::Duration max_queue_time = absl::Seconds(5);

  // The limit for the bytes of remembered versions of deleted ids (version_memory.h). A log with another limit must not
  // follow a stream: servers with different limits would end up with different documents. So this is not a key of the
  // configuration.
  uint64_t remembered_bytes = collection::kRememberedBytes;

  int max_collections = 64;          // live collections open at the same time
  bool restore_created = true;       // after a restart, serve the collections that clients created
  bool create_from_cluster = false;  // create the collections that other servers have shared; kNats
  std::string group;                 // cluster.group, this server's group; "": unknown

  bool compact = true;  // in the background
  // A compaction begins when segments hold compact_at_bytes, when compact_at_tombstone_share of a collection's
  // documents have a tombstone, or when the oldest write that no generation holds is older than compact_after.
  int64_t compact_at_bytes = int64_t{512} << 20;
  double compact_at_tombstone_share = 0.2;
  absl::Duration compact_after = absl::Minutes(10);
  int64_t compact_bytes_per_second = int64_t{256} << 20;  // limit for a compaction's writes; 0 for no limit
};

}  // namespace maxsim::live
