// Writes the next generation of a live collection: merges the writes that its log has had since the present generation
// into its shards.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/build/builder.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"
#include "collection/quantization_loss.h"

namespace maxsim::collection {

// The steps of a compaction, which the observer is told.
enum class CompactStep {
  kReading,           // the log's records and the shards' ids come next
  kWriting,           // a shard
  kShardWritten,      // it is complete under its name
  kNotingTombstones,  // all shards are complete
  kPublishing,        // the manifest comes next
  kPublished,         // only the removal of old files is left
};
// Called at each step. An error that it returns ends the compaction, and the collection is unchanged. At kPublished its
// errors are ignored.
using CompactObserver = std::function<absl::Status(CompactStep)>;

struct CompactOptions {
  // A shard is rewritten without dead documents if more than this share of its documents has a tombstone. Otherwise it
  // stays, and the log notes its tombstones. With 0 every shard with a tombstone is rewritten, and none is left.
  double max_tombstone_share = 0.2;
  // Neighbouring shards that are written again or are smaller than a quarter of this are joined to shards of this size
  // at most.
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
  int64_t bytes_per_second = 0;  // that are written at most; 0: without bound
  std::string created_by = "maxsim-shard";
  const StopSignal* stop = nullptr;  // Once stopped, the compaction ends with its status and changes nothing.
  CompactObserver observer = nullptr;
};

struct CompactResult {
  Manifest manifest;  // that is published: of the next generation, or the one before where nothing had changed
  bool changed = false;
  int64_t shards_kept = 0;  // of the generation before
  int64_t shards_written = 0;
  int64_t bytes_written = 0;
  int64_t tombstones_left = 0;  // in kept shards
  QuantizationLoss loss;        // i8: in the shards that were written
};

// Compacts the writes up to and including `through` (at most log.last_sequence()) of the collection in `folder`, whose
// log is `log`, and publishes the result. Documents without a tombstone keep the order of the shards; the writes follow
// in their order. Does not truncate the log: call CollectionLog::Truncate once the new generation has been loaded. A
// crash at any point leaves the generation before or the next one, whole.
// FAILED_PRECONDITION (a build runs, or the manifest names no log_sequence), DATA_LOSS (shards, log),
// RESOURCE_EXHAUSTED (disk).
absl::StatusOr<CompactResult> Compact(const std::string& folder, CollectionLog& log, uint64_t through,
                                      const CompactOptions& options);

}  // namespace maxsim::collection
