// Gives a collection that is there codes of its documents, other ones, or none.
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

// Publishes a generation of the same shards, whose files are not touched, with the codes that are asked for. Where the
// collection has codes of the same rotation, and of as many planes or more, they are kept, and files of planes beyond
// are no longer named; otherwise every shard is read once for its checksum and encoded, one after another. A live
// collection stays so: its log must not be open in a server. When it fails or is interrupted before the manifest is
// renamed, nothing has changed, and the files that were written are removed; should the process die, the next build or
// encoding removes them.
// The files are a function of the stored vectors and of the format. Memory is a batch of tokens per call
// (ShardEncoder). `observer` sees Stage::kEncoding and later ones, with documents and bytes of codes.
// Errors are NOT_FOUND, DATA_LOSS, RESOURCE_EXHAUSTED, FAILED_PRECONDITION (another build runs, or a server has the
// live collection loaded), INVALID_ARGUMENT and those of the observer.
absl::StatusOr<EncodeResult> EncodeCollection(const EncodeOptions& options, const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
