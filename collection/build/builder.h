// Writes a collection's next generation: plans shards, streams tokens and payloads into them, publishes the manifest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collection/build/codes_request.h"
#include "collection/build/progress.h"
#include "collection/build/sources/sources.h"
#include "collection/catalog.h"
#include "collection/field.h"
#include "collection/manifest.h"
#include "collection/slots.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {

inline constexpr int64_t kDefaultMaxShardBytes = int64_t{4} << 30;
inline constexpr int64_t kMinMaxShardBytes = 8192;

struct BuildOptions {
  std::string folder{};  // created when it is not there
  std::string name{};    // of the collection; "" takes the name of the one in the folder, or the folder's own name
  ScalarType storage = ScalarType::kF16;
  uint64_t rotation_seed = 0;  // i8: 0 .. kMaxRotationSeed
  int num_threads = 0;         // that quantise (i8) and encode; 0: one per core
  // With 0 the generation follows the published one. Any other number is used as it is, and must be newer than the
  // published one.
  int64_t generation = 0;
  // Lets the generation differ from the published one in what its clients rely on: the dimension, the type of ids, and
  // that there are payloads.
  bool allow_other_shape = false;
  // This bounds a shard file's size. A document that is larger by itself gets a shard of its own.
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
  std::string created_by = "maxsim-shard";
  // Goes into the manifest; its dim must be that of the token vectors.
  std::optional<EncoderIdentity> encoder = {};
  bool refuse_lossy = false;  // i8: fail with INVALID_ARGUMENT on a lossy token (QuantizationLoss)
  bool has_payloads = false;  // let the manifest say that there are some, also where no document has one
  // Last write of the folder's log that the documents hold. Must be set if the log has writes.
  std::optional<uint64_t> log_sequence = {};
  CodesRequest codes = {};  // of every document, made of the vectors as they are stored
  // Requests can filter by these fields. Their values are read from the payloads. Must pass CheckFields.
  std::vector<Field> fields = {};
};

// Builds and publishes the generation after the one in the folder (1 if there is none), or the one that the options
// name, and returns its manifest. For i8 a batch of documents is held in memory, the largest one at least. The
// catalog's lengths sum to tokens.num_tokens(); `payloads` may be null when the catalog has none. One build at a time
// writes to a folder. When it fails before the manifest is renamed, the folder's generation is untouched and the files
// of the failed one are removed, as is the folder where it was made for them; should the process die, the next build
// removes the files. The files of the generation before stay, for readers that are about to open them; older ones are
// removed. Once the manifest is renamed the build has succeeded, whatever happens next (BuildProgress::synchronised).
// INVALID_ARGUMENT (values that are not finite or do not fit the storage: with row, column and document; values that
// do not fit their field: with document, field and value),
// FAILED_PRECONDITION (another build runs, or the folder holds a collection of another name, of another shape
// (BuildOptions::allow_other_shape), or too new a generation, or a log whose writes BuildOptions::log_sequence does not
// fit),
// RESOURCE_EXHAUSTED (disk).
absl::StatusOr<Manifest> BuildCollection(const BuildOptions& options, const Catalog& catalog, TokenSource& tokens,
                                         PayloadSource* payloads, const BuildObserver& observer = nullptr);

// A folder that gets the documents of some slots.
struct PartitionFolder {
  std::string folder;  // created when it is not there
  SlotRange slots;     // with all of them the collection there is whole
};

// Builds one collection in each folder, all of one name and generation, in one pass over the sources: no token vector
// is read or written twice. Does what BuildCollection does for each, with these differences. BuildOptions::folder is
// the folder that holds the others, or is created for them, and gives the name where nothing else does. The generation
// follows the newest that is published in one of the folders. The shards of all are complete before the first manifest
// is renamed; where a later rename fails, the message says so, and those before it are published. The ranges must not
// overlap, and INVALID_ARGUMENT names a document whose slot is in none. A folder whose slots no document has gets a
// manifest without shards; the catalog may have no document at all. FAILED_PRECONDITION if a folder holds a
// partition of other slots; RESOURCE_EXHAUSTED if the process may not have as many files open. Returns the
// manifests, in the order of the folders.
absl::StatusOr<std::vector<Manifest>> BuildPartitions(const BuildOptions& options,
                                                      absl::Span<const PartitionFolder> partitions,
                                                      const Catalog& catalog, TokenSource& tokens,
                                                      PayloadSource* payloads, const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
