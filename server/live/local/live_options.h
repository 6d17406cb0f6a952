// How live collections use memory, when they are compacted and what orders their writes: the keys live.* and nats.* of
// the configuration.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "collection/log/version_memory.h"
#include "server/live/local/nats_options.h"

namespace maxsim::live {

// Where writes get their order and their sequences from.
enum class LogKind {
  kLocal,  // the collection's own log
  kNats,   // a stream of NATS JetStream, which several servers follow; the log of each holds what it has applied
};

struct LiveOptions {
  LogKind log = LogKind::kLocal;
  NatsOptions nats;  // kNats

  // The memory of a segment's token vectors, on each device that holds it. A new segment is made larger than this if
  // the segments before it hold more there (then it has their size, so that there are few segments), and smaller if
  // max_segment_bytes or memory leave less.
  int64_t segment_bytes = int64_t{64} << 20;
  int64_t max_segment_bytes = int64_t{4} << 30;   // of all segments of a collection on one device
  int64_t max_queued_bytes = int64_t{256} << 20;  // of writes that wait, of one collection
  // The longest time that a call may wait before its writes begin to be written; 0: no limit.
  absl::Duration max_queue_time = absl::Seconds(5);

  // The limit of version_memory.h that a log must have to follow a stream: servers with different limits would come to
  // hold different documents. It is no key of the configuration.
  uint64_t remembered_bytes = collection::kRememberedBytes;

  int max_collections = 64;     // live collections open at the same time
  bool restore_created = true;  // after a restart, serve the collections that clients created

  bool compact = true;  // in the background
  // A compaction begins when segments hold this many bytes, when this share of a collection's documents has a
  // tombstone, or when the oldest write that no generation holds is this old.
  int64_t compact_at_bytes = int64_t{512} << 20;
  double compact_at_tombstone_share = 0.2;
  absl::Duration compact_after = absl::Minutes(10);
  int64_t compact_bytes_per_second = int64_t{256} << 20;  // limit of its writing; 0: no limit
};

}  // namespace maxsim::live
