// Writes a collection's next generation (version): plans the shards, streams tokens and payloads into them, and
// publishes the manifest.
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
  // The collection's name. If it is "", the new generation keeps the name of the collection in the folder or, if there
  // is none, gets the folder's name.
  std::string name{};
  ScalarType storage = ScalarType::kF16;
  uint64_t rotation_seed = 0;  // i8: 0 .. kMaxRotationSeed
  int num_threads = 0;         // threads that quantise (i8) and encode; 0 for one per core
  // The new generation's number. Must exceed the published generation's. 0 means the published number + 1.
  int64_t generation = 0;
  // Lets the new generation change the dimension, the type of ids or the kind of a field, or drop payloads or a field.
  // Clients of the published generation may rely on these.
  bool allow_other_shape = false;
  // The largest size of a shard file. A document that needs more gets a shard of its own.
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
  std::string created_by = "maxsim-shard";
  // The identity of the encoder that made the vectors, stored in the manifest. Its dim must be that of the vectors.
  std::optional<EncoderIdentity> encoder = {};
  bool refuse_lossy = false;  // i8: fail with INVALID_ARGUMENT on a lossy token (QuantizationLoss)
  bool has_payloads = false;  // the manifest says that there are payloads, even if no document has one
  // The number of the last write in the folder's log whose effect is already in the documents. Must be set if the log
  // has writes.
  std::optional<uint64_t> log_sequence = {};
  CodesRequest codes = {};  // of every document, computed from the stored vectors
  // The payload fields by which requests can filter. Must pass CheckFields.
  std::vector<Field> fields = {};
};

// Builds and publishes a generation of the collection in BuildOptions::folder, and returns its manifest. The sum of the
// catalog's lengths must be tokens.num_tokens(). `payloads` may be null if the catalog has no payloads. For i8, holds a
// batch of documents in memory, at least the largest document.
// If the build fails before the manifest is renamed, the published generation is unchanged, and the new files (and the
// folder, if it is new) are removed. If the process dies, the next build removes them. Once the manifest is renamed,
// the build has succeeded, even if a later step fails (BuildProgress::synchronised). The previous generation's files
// stay, because a reader may be about to open them. Older files are removed.
// Errors:
// - INVALID_ARGUMENT: a value is not finite, does not fit the storage type, or does not fit its field.
// - FAILED_PRECONDITION: another build writes to the folder; the folder has a collection of another name, of another
//   shape (BuildOptions::allow_other_shape) or of too new a generation; or its log does not fit
//   BuildOptions::log_sequence.
// - RESOURCE_EXHAUSTED: the disk has too little space.
absl::StatusOr<Manifest> BuildCollection(const BuildOptions& options, const Catalog& catalog, TokenSource& tokens,
                                         PayloadSource* payloads, const BuildObserver& observer = nullptr);

// A folder that gets the documents of some slots.
struct PartitionFolder {
  std::string folder;  // created when it is not there
  SlotRange slots;     // with all slots, the folder gets a whole collection
};

// Builds a collection in each folder, all with the same name and generation, and reads the sources only once. Returns
// the manifests in the order of the folders. Does for each folder what BuildCollection does, with these differences:
// - BuildOptions::folder is the parent of the folders and is created if necessary. If the options have no name and
//   nothing is published, the collection gets this folder's name.
// - By default the generation is one above the newest that is published in any of the folders.
// - All shards of all folders are complete before the first manifest is renamed. If a later rename fails, the folders
//   before it stay published, and the error says so.
// - The slot ranges must not overlap. A document whose slot is in no range is INVALID_ARGUMENT.
// - The catalog may be empty. A folder without documents gets a manifest without shards.
// - FAILED_PRECONDITION if a folder has a partition of other slots; RESOURCE_EXHAUSTED if the process may not open
//   enough files.
absl::StatusOr<std::vector<Manifest>> BuildPartitions(const BuildOptions& options,
                                                      absl::Span<const PartitionFolder> partitions,
                                                      const Catalog& catalog, TokenSource& tokens,
                                                      PayloadSource* payloads, const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
