// Writes one shard file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "collection/build/builder.h"
#include "collection/build/sources.h"
#include "collection/catalog.h"
#include "collection/manifest.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {

// How token values are stored.
struct TokenEncoding {
  ScalarType storage = ScalarType::kF16;
  uint64_t rotation_seed = 0;  // i8
  int num_threads = 1;         // i8: that quantise
};

// Returns the size of the file that WriteShard makes from a plan's counts.
int64_t ShardFileBytes(const ShardPlan& plan, ScalarType storage, int64_t dim, IdType id_type, bool has_payloads);

// Gets the documents and bytes that have been written of the present shard so far.
using ShardProgress = std::function<absl::Status(int64_t documents, int64_t bytes)>;

// Writes the plan's documents to `folder`/`file`, complete and on the disk when it returns. The sources stand at the
// plan's first document and are left behind its last.
absl::StatusOr<ShardEntry> WriteShard(const std::string& folder, const std::string& file, const ShardPlan& plan,
                                      const TokenEncoding& encoding, const Catalog& catalog, TokenSource& tokens,
                                      PayloadSource* payloads, const ShardProgress& progress);

}  // namespace maxsim::collection
