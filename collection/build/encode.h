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
  Manifest manifest;       // the published manifest, which is the old one if `changed` is false
  bool changed = false;    // whether a new generation was published
  int64_t bytes_made = 0;  // bytes of codes that were written
  // An error if the folder could not be synced to disk (BuildProgress::synchronised).
  absl::Status synchronised = absl::OkStatus();
};

// Publishes a new generation with the same shard files and the requested codes. If the collection already has codes of
// the same rotation and with at least as many planes, keeps the files of these codes, and only drops extra planes from
// the manifest. Otherwise verifies the checksum of every shard and encodes the shards one after another. A live
// collection stays live, but no server may have its log open.
// If this fails before the manifest is renamed, the collection is unchanged, and the new files are removed. If the
// process dies, the next build or encoding removes them. `observer` sees Stage::kEncoding and later stages. Errors are
// NOT_FOUND, DATA_LOSS, RESOURCE_EXHAUSTED, FAILED_PRECONDITION (another build runs, or a server has loaded the live
// collection), INVALID_ARGUMENT, and those of the observer.
absl::StatusOr<EncodeResult> EncodeCollection(const EncodeOptions& options, const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
