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
  Manifest manifest;       // the published manifest: of a new generation, or the existing one if nothing changed
  bool changed = false;    // whether a new generation was published
  int64_t bytes_made = 0;  // bytes of codes that were written
  // The reason if the folder could not be synchronised (BuildProgress::synchronised).
  absl::Status synchronised = absl::OkStatus();
};

// Publishes a generation with the same shards, whose files do not change, and with the requested codes. If the
// collection already has codes of the same rotation and with at least as many planes, keeps their files, and only drops
// the files of extra planes from the manifest. Otherwise reads every shard once for its checksum, and encodes the
// shards one after another. A live collection stays live; its log must not be open in a server. If this fails before
// the manifest is renamed, nothing has changed, and the new files are removed. If the process dies, the next build or
// encoding removes them. The contents of the files only depend on the stored vectors and the format. Takes memory for a
// batch of tokens (ShardEncoder). `observer` sees Stage::kEncoding and later stages, with the documents and the bytes
// of codes. Errors are NOT_FOUND, DATA_LOSS, RESOURCE_EXHAUSTED, FAILED_PRECONDITION (another build runs, or a server
// has loaded the live collection), INVALID_ARGUMENT, and those of the observer.
absl::StatusOr<EncodeResult> EncodeCollection(const EncodeOptions& options, const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
