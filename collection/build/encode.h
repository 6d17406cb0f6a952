// Adds codes to an existing collection, replaces them, or removes them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/build/builder.h"
#include "collection/build/codes_request.h"
#include "collection/manifest.h"

namespace maxsim::collection {

struct EncodeOptions {
  std::string folder;
  CodesRequest codes;
  int num_threads = 0;  // 0: one per core
  std::string created_by = "maxsim-shard";
};

struct EncodeResult {
  Manifest manifest;       // that is published: of the next generation, or the one before where nothing had changed
  bool changed = false;    // whether there is a new generation
  int64_t bytes_made = 0;  // of codes that were written
  // Says why the folder could not be synchronised, if so (BuildProgress::synchronised).
  absl::Status synchronised = absl::OkStatus();
};

// Publishes a generation with the same shards, whose files are not touched, and with the codes that are asked for.
// If the collection already has codes of the same rotation and of at least as many planes, keeps their files, and
// no longer names those of further planes. Otherwise reads every shard once for its checksum, and encodes one
// after another. A live collection stays live: its log must not be open in a server. If this fails or is
// interrupted before the manifest is renamed, nothing has changed, and the written files are removed; if the
// process dies, the next build or encoding removes them. The files depend on the stored vectors and the format
// only. Takes memory for a batch of tokens per call (ShardEncoder). `observer` sees Stage::kEncoding and later
// ones, with documents and bytes of codes. Errors are NOT_FOUND, DATA_LOSS, RESOURCE_EXHAUSTED,
// FAILED_PRECONDITION (another build runs, or a server has the live collection loaded), INVALID_ARGUMENT and those
// of the observer.
absl::StatusOr<EncodeResult> EncodeCollection(const EncodeOptions& options, const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
