// Writes the next generation (version) of a live collection: merges the writes in its log into its shards.
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

// The steps of a compaction, for its observer.
enum class CompactStep {
  kReading,           // before reading the log's records and the shards' ids
  kWriting,           // a shard
  kShardWritten,      // a shard is complete under its name
  kNotingTombstones,  // all shards are complete; the log gets the tombstones
  kPublishing,        // before publishing the manifest
  kPublished,         // published; old files are removed next
};
// Called at each step. An error that the observer returns ends the compaction, and the collection is unchanged; an
// error at kPublished is ignored.
using CompactObserver = std::function<absl::Status(CompactStep)>;

struct CompactOptions {
  // A shard is rewritten without its dead documents if more than this share of its documents has a tombstone (was
  // deleted or replaced). Otherwise the shard is kept, and the log stores its tombstones. With 0, every shard with a
  // tombstone is rewritten.
  double max_tombstone_share = 0.2;
  // The largest size of a shard. Neighbouring shards are joined if they are rewritten anyway, or if they are smaller
  // than a quarter of this.
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
  int64_t bytes_per_second = 0;  // limit for its writes; 0 for no limit
  std::string created_by = "maxsim-shard";
  const StopSignal* stop = nullptr;  // Once stopped, the compaction ends with its status and changes nothing.
  CompactObserver observer = nullptr;
};

struct CompactResult {
  Manifest manifest;  // the published manifest, which is the old one if `changed` is false
  bool changed = false;
  int64_t shards_kept = 0;  // from the previous generation
  int64_t shards_written = 0;
  int64_t bytes_written = 0;
  int64_t tombstones_left = 0;  // in kept shards
  QuantizationLoss loss;        // i8: in the shards that were rewritten
};

// Merges the writes with sequences up to `through` (at most log.last_sequence()) into the shards of the collection in
// `folder`, and publishes the result. The shards' live documents keep their order; the documents from the log follow in
// the order of their writes. Does not truncate the log: call CollectionLog::Truncate after the new generation has been
// loaded. A crash leaves either the previous or the new generation, complete. Errors are FAILED_PRECONDITION (a build
// runs, or the manifest has no log_sequence), DATA_LOSS (shards, log) and RESOURCE_EXHAUSTED (disk).
absl::StatusOr<CompactResult> Compact(const std::string& folder, CollectionLog& log, uint64_t through,
                                      const CompactOptions& options);

}  // namespace maxsim::collection
