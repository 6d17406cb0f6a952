// Reads and writes collection.json, which says what a collection is made of.
//
// A collection is a folder with a manifest and immutable shard files. Publishing a generation writes new shard files,
// then replaces the manifest by a rename, so that a reader sees the old generation or the new one, never a mixture.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/encoder_identity.h"
#include "collection/field.h"
#include "collection/slots.h"
#include "kernels/codes/codes.h"
#include "kernels/scalar_type.h"

namespace maxsim {
class Folder;
}  // namespace maxsim

namespace maxsim::collection {

inline constexpr std::string_view kManifestFileName = "collection.json";

enum class IdType : uint8_t { kString, kInt64 };

std::string_view Name(IdType type);  // "string", "int64"

// This is the rotation of i8 collections (kernels/quantize.h), as manifests and shard files name it.
inline constexpr std::string_view kRotationKind = "hadamard";

// Shards of a collection, far more than a process can map by default.
inline constexpr int64_t kMaxShards = 100'000;

// Seeds end where JSON numbers stop being exact in every reader.
inline constexpr int64_t kMaxRotationSeed = (int64_t{1} << 53) - 1;

// Sequences of a log end there as well: a million writes a second reach it after 285 years.
inline constexpr int64_t kMaxLogSequence = (int64_t{1} << 53) - 1;

// Describes the codes (kernels/codes/codes.h) that every document of a collection has.
struct CodesFormat {
  int planes = 4;              // that are stored: 1, 2 or 4
  bool factors = false;        // whether each token has one
  uint64_t rotation_seed = 0;  // up to kMaxRotationSeed; that of the vectors where these are i8

  friend bool operator==(const CodesFormat&, const CodesFormat&) = default;
};

// Returns the number of files that hold the codes of a shard: one each for plane 0, plane 1, and planes 2 and 3.
constexpr size_t NumCodeFiles(int planes) { return planes == 4 ? 3 : static_cast<size_t>(planes); }

// One file beside a shard as the manifest names it.
struct FileEntry {
  std::string file;  // name inside the collection's folder
  int64_t num_bytes = 0;
  std::string checksum;  // as ShardEntry has it
};
using CodeFileEntry = FileEntry;

// One shard file as the manifest names it, with the files of its codes and of its fields.
struct ShardEntry {
  std::string file;  // name inside the collection's folder: no path separators
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  int64_t num_bytes = 0;                       // of the file
  std::string checksum;                        // "xxh3-128:" and 32 hex digits, of the whole file
  std::vector<CodeFileEntry> code_files = {};  // [NumCodeFiles] where the collection has codes
  std::optional<FileEntry> field_file = {};    // where the collection has fields
};

struct Manifest {
  std::string name;
  int64_t generation = 0;  // 1, 2, ...
  int32_t dim = 0;
  ScalarType storage = ScalarType::kF16;
  uint64_t rotation_seed = 0;  // i8 only: up to kMaxRotationSeed
  int64_t num_centroids = 0;   // residual codes only: of each shard, 1 .. kMaxCentroids
  IdType id_type = IdType::kString;
  bool has_payloads = false;
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  std::string created_by;  // program and version
  std::string created_at;  // RFC 3339, UTC
  std::vector<ShardEntry> shards;
  std::optional<EncoderIdentity> encoder = {};  // that made the vectors, if the builder was told
  // Live collections: sequence of the last write of the log (collection/log/) that the shards hold. nullopt if the
  // manifest names no log: the collection is not live, or it was built anew by a builder that did not know of its log.
  std::optional<uint64_t> log_sequence = {};
  // The slots of the collection's documents if it is a partition of a larger collection; never all slots. Its shards
  // then have ordinals (collection/shard.h).
  std::optional<SlotRange> partition = {};
  std::optional<CodesFormat> codes = {};  // of every document, where the collection has codes
  // Declares what requests can filter by. Values are read from the payloads, which the collection has then. A live
  // collection keeps its fields, because its log has writes that were checked against them.
  std::vector<Field> fields = {};

  SlotRange slots() const { return partition.value_or(SlotRange()); }
};

// Returns the bytes of a shard's file beside the token vectors: ids, offsets, scales, payloads, the header. Returns 0
// for an entry that lies.
int64_t BytesBesideTokens(const Manifest& manifest, const ShardEntry& entry);

// Returns the shape of the collection's codes; Manifest::codes has a value.
CodeShape CodeShapeOf(const Manifest& manifest);

// Returns "4 planes, with factors, rotation seed 0", or "none".
std::string DescribeCodes(const std::optional<CodesFormat>& codes);

// Returns the bytes of the files of codes of a shard, of the first 1, 2 or 4 planes.
int64_t CodeFileBytes(const ShardEntry& entry, int planes);

// Returns the text of the fields as ParseFields takes it, or "none".
std::string DescribeFields(const std::vector<Field>& fields);

// Returns the size of a shard's field file; 0 if it has none.
int64_t FieldFileBytes(const ShardEntry& entry);

std::string FormatManifest(const Manifest& manifest);

// NOT_FOUND if the folder holds no manifest. Errors tell nothing of what a file holds that is no manifest.
absl::StatusOr<Manifest> ReadManifest(const Folder& folder);
absl::StatusOr<Manifest> ReadManifest(const std::string& folder);

// Writes to a temporary name, synchronises, and renames. After OK the generation is published; `synchronised` (may be
// null) is then OK if the rename is on the disk too. Where it is not, the system may come back from a power failure
// with the generation before, which is complete as well.
absl::Status PublishManifest(const Manifest& manifest, const std::string& folder, absl::Status* synchronised = nullptr);

}  // namespace maxsim::collection
