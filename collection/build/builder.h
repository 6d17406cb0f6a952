// Writes a collection's next generation: plans the shards, streams tokens and payloads into them, and publishes the
// manifest.
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
  // The number of the generation. It must be above the published generation's number; 0 stands for the number after
  // that one.
  int64_t generation = 0;
  // Allows the generation to differ from the published one in properties that clients rely on: the dimension, the type
  // of ids, and whether there are payloads.
  bool allow_other_shape = false;
  // The largest size of a shard file. If a single document needs more, it gets a shard of its own.
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
  std::string created_by = "maxsim-shard";
  // The encoder's identity, which the manifest stores. Its dim must be that of the token vectors.
  std::optional<EncoderIdentity> encoder = {};
  bool refuse_lossy = false;  // i8: fail with INVALID_ARGUMENT on a lossy token (QuantizationLoss)
  bool has_payloads = false;  // the manifest says that there are payloads, even if no document has one
  // The sequence of the last write in the folder's log that the documents include. Must be set if the log has writes.
  std::optional<uint64_t> log_sequence = {};
  CodesRequest codes = {};  // of every document, computed from the stored vectors
  // Requests can filter by these fields. Their values are read from the payloads. Must pass CheckFields.
  std::vector<Field> fields = {};
};

// Builds and publishes a generation (BuildOptions::generation), and returns its manifest. The sum of the catalog's
// lengths must be tokens.num_tokens(). `payloads` may be null if the catalog has none. For i8, holds a batch of
// documents in memory, at least the largest document. Only one build at a time may write to a folder. If the build
// fails before the manifest is renamed, the published generation is unchanged, and the new files (and the folder, if it
// is new) are removed. If the process dies, the next build removes the files. Once the manifest is renamed, the build
// has succeeded, even if a later step fails (BuildProgress::synchronised). The files of the previous generation stay,
// because readers may be about to open them; older ones are removed. Errors are INVALID_ARGUMENT (a value is not finite
// or does not fit the storage: with row, column and document; or a value does not fit its field: with document, field
// and value), FAILED_PRECONDITION (another build runs, or the folder has a collection of another name, of another shape
// (BuildOptions::allow_other_shape), or of too new a generation, or a log that does not fit
// BuildOptions::log_sequence), and RESOURCE_EXHAUSTED (disk).
absl::StatusOr<Manifest> BuildCollection(const BuildOptions& options, const Catalog& catalog, TokenSource& tokens,
                                         PayloadSource* payloads, const BuildObserver& observer = nullptr);

// A folder that gets the documents of some slots.
struct PartitionFolder {
  std::string folder;  // created when it is not there
  SlotRange slots;     // with all slots, the folder gets a whole collection
};

// Builds a collection in each folder, all with the same name and generation, in one pass over the sources: no token
// vector is read or written twice. Does for each folder what BuildCollection does, with these differences.
// BuildOptions::folder is the parent of the folders, is created if necessary, and is the last choice for the name. The
// generation follows the newest one that is published in any of the folders. All shards of all folders are complete
// before the first manifest is renamed. If a later rename fails, the message says so, and the folders before it stay
// published. The ranges must not overlap. If a document's slot is in no range, returns INVALID_ARGUMENT, naming the
// document. A folder without documents gets a manifest without shards; the catalog may be empty. Returns
// FAILED_PRECONDITION if a folder has a partition of other slots, and RESOURCE_EXHAUSTED if the process may not open
// enough files. Returns the manifests in the order of the folders.
absl::StatusOr<std::vector<Manifest>> BuildPartitions(const BuildOptions& options,
                                                      absl::Span<const PartitionFolder> partitions,
                                                      const Catalog& catalog, TokenSource& tokens,
                                                      PayloadSource* payloads, const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
