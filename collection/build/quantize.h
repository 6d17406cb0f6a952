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
  std::string source;  // folders, not the same
  std::string target;
  std::string name;  // of the target; "" takes the source's
  uint64_t rotation_seed = 0;
  int num_threads = 0;             // 0: one per core
  bool allow_other_shape = false;  // as BuildOptions has it, for a target that holds an older generation
  bool refuse_lossy = false;       // see BuildOptions
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
  std::string created_by = "maxsim-shard";
  std::optional<int> codes = {};  // planes of the target's codes, 0 for none; nullopt: as many as the source has
};

// Streams the source's documents, ids and payloads into a collection of the same generation in `target`, and publishes
// it as BuildCollection does. If `target` has a collection, that must be older. A partition becomes a partition with
// the same slots and positions. In memory are what a build keeps of each document, a batch of token vectors, and up to
// two of the source's shards without their tokens. Verifies the source's checksums. Errors are BuildCollection's, the
// source's (NOT_FOUND, DATA_LOSS), and FAILED_PRECONDITION for a source that is i8 already or is the target.
absl::StatusOr<Manifest> QuantizeCollection(const QuantizeOptions& options, const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
