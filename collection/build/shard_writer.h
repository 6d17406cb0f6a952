// Writes the documents of a catalog into shards: those of one collection, or of several partitions side by side.
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
  std::vector<ShardSet> sets;  // at least one; every document of the catalog is in one of them
  // [kNumSlots] For each slot, the index of the set that gets its documents. Empty if there is only one set.
  std::vector<uint16_t> set_of_slot;
  int num_threads = 1;        // i8: threads that quantise
  bool refuse_lossy = false;  // i8: see TokenEncoding
};

// Follows a WriteShards. An error that a function returns ends it.
struct ShardsObserver {
  // Gets the documents whose rows have been written and the bytes of all files, now and then.
  std::function<absl::Status(int64_t documents, int64_t bytes)> on_progress;
  // Gets each shard that is complete under its name.
  std::function<absl::Status(size_t set_idx, ShardEntry entry)> on_shard;
  // If not null, the loss of i8 storage is added to it once all shards are written.
  QuantizationLoss* loss = nullptr;
};

// Writes all shards in one pass over the sources, which stand at the catalog's first document; `payloads` may be null
// when the catalog has none. No token vector is read or written twice. One shard of each set is open at a time, with
// its buffers: 256 MiB of them together at most, but 128 KiB a set at least. Errors are those of RowReader, ShardFile,
// the sources and the observer; shards that were complete before are left to the caller.
absl::Status WriteShards(const ShardSets& sets, const Catalog& catalog, TokenSource& tokens, PayloadSource* payloads,
                         const ShardsObserver& observer);

}  // namespace maxsim::collection
