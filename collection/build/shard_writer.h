// Writes the documents of a catalog into the shards of one collection, or of several partitions at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collection/build/shard_plan.h"
#include "collection/build/sources/row_reader.h"
#include "collection/build/sources/sources.h"
#include "collection/catalog.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// The shards of one generation in one folder.
struct ShardSet {
  std::string folder;
  int64_t generation = 0;
  int64_t first_file = 0;  // number of the first shard in its name
  DocumentList documents;
  std::vector<ShardPlan> plans;  // of `documents`
};

struct ShardSets {
  ShardLayout layout;
  std::vector<ShardSet> sets;  // at least one; every document of the catalog must be in exactly one
  // [kNumSlots] For each slot, the index of the set that gets its documents. Empty if there is only one set.
  std::vector<uint16_t> set_of_slot;
  int num_threads = 1;        // i8: threads that quantise
  bool refuse_lossy = false;  // i8: see TokenEncoding
};

// Callbacks of WriteShards. An error that one returns ends WriteShards.
struct ShardsObserver {
  // Called after every block, with the number of documents whose rows are all written, and the bytes of all files.
  std::function<absl::Status(int64_t documents, int64_t bytes)> on_progress;
  // Called when a shard is complete under its name.
  std::function<absl::Status(size_t set_idx, ShardEntry entry)> on_shard;
  // If not null, the loss of i8 storage is added to it once all shards are written.
  QuantizationLoss* loss = nullptr;
};

// Writes all shards in one pass over the sources, which must be at the catalog's first document. `payloads` may be null
// if the catalog has no payloads. Each set has one open shard at a time. All buffers together take 256 MiB, or 128 KiB
// per set if that is more. Errors are those of RowReader, ShardFile, the sources and the observer. After an error the
// caller must remove the shards that are complete.
absl::Status WriteShards(const ShardSets& sets, const Catalog& catalog, TokenSource& tokens, PayloadSource* payloads,
                         const ShardsObserver& observer);

}  // namespace maxsim::collection
