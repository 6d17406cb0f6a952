// Makes an i8 collection from one in f16, bf16 or f32.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "collection/build/builder.h"
#include "collection/manifest.h"

namespace maxsim::collection {

struct QuantizeOptions {
  std::string source;  // two different folders
  std::string target;
  std::string name;  // of the target; "" takes the source's
  uint64_t rotation_seed = 0;
  int num_threads = 0;             // 0: one per core
  bool allow_other_shape = false;  // see BuildOptions; for a target with an older generation
  bool refuse_lossy = false;       // see BuildOptions
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
  std::string created_by = "maxsim-shard";
  std::optional<int> codes = {};  // planes of the target's codes; 0 for none, nullopt for as many as the source has
};

// Builds and publishes an i8 collection in `target` with the source's documents, ids, payloads and generation number.
// If `target` already has a collection, its generation must be older. A partition becomes a partition with the same
// slots and positions. Verifies the source's checksums. Errors are those of BuildCollection, NOT_FOUND and DATA_LOSS
// for the source, and FAILED_PRECONDITION if the source is already i8 or is the target.
absl::StatusOr<Manifest> QuantizeCollection(const QuantizeOptions& options, const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
