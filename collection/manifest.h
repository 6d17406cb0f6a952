// Reads and writes a collection's manifest, collection.json, which names its files and its properties.
//
// A collection is a folder with a manifest and immutable shard files. To publish a new generation (version), a writer
// writes new shard files and then replaces the manifest by a rename. So a reader sees either the old generation or the
// new one, never a mixture.
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

// The largest file that is read as a manifest.
inline constexpr int64_t kMaxManifestFileBytes = int64_t{128} << 20;

enum class IdType : uint8_t { kString, kInt64 };

std::string_view Name(IdType type);  // "string", "int64"

// The name of the rotation of i8 collections (kernels/quantize.h) in manifests and shard files.
inline constexpr std::string_view kRotationKind = "hadamard";

// The most shards of a collection: far more than a process can map by default.
inline constexpr int64_t kMaxShards = 100'000;

// The largest seed of a rotation. Some JSON readers do not represent larger integers exactly.
inline constexpr int64_t kMaxRotationSeed = (int64_t{1} << 53) - 1;

// The largest sequence (number of a write) of a log. Some JSON readers do not represent larger integers exactly. A
// million writes per second reach it after 285 years.
inline constexpr int64_t kMaxLogSequence = (int64_t{1} << 53) - 1;

// Describes the codes (kernels/codes/codes.h) that every document of a collection has.
struct CodesFormat {
  int planes = 4;              // number of stored planes: 1, 2 or 4
  bool factors = false;        // whether each token has a factor
  uint64_t rotation_seed = 0;  // up to kMaxRotationSeed; for i8 vectors, it equals their rotation seed

  friend bool operator==(const CodesFormat&, const CodesFormat&) = default;
};

// Returns the number of code files of a shard: one for plane 0, one for plane 1, and one for planes 2 and 3 together.
constexpr size_t NumCodeFiles(int planes) { return planes == 4 ? 3 : static_cast<size_t>(planes); }

// The manifest's entry for a file beside a shard.
struct FileEntry {
  std::string file;  // name inside the collection's folder
  int64_t num_bytes = 0;
  std::string checksum;  // like ShardEntry::checksum
};
using CodeFileEntry = FileEntry;

// The manifest's entry for a shard file, with the entries for its code files and its field file.
struct ShardEntry {
  std::string file;  // name inside the collection's folder: no path separators
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  int64_t num_bytes = 0;                       // of the file
  std::string checksum;                        // "xxh3-128:" and 32 hex digits, of the whole file
  std::vector<CodeFileEntry> code_files = {};  // [NumCodeFiles] if the collection has codes
  std::optional<FileEntry> field_file = {};    // if the collection has fields
};

struct Manifest {
  std::string name;
  int64_t generation = 0;  // 1, 2, ...
  int32_t dim = 0;
  ScalarType storage = ScalarType::kF16;
  uint64_t rotation_seed = 0;  // i8 only: up to kMaxRotationSeed
  int64_t num_centroids = 0;   // residual codes only: in each shard, 1 .. kMaxCentroids
  IdType id_type = IdType::kString;
  bool has_payloads = false;
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  std::string created_by;  // program and version
  std::string created_at;  // RFC 3339, UTC
  std::vector<ShardEntry> shards;
  std::optional<EncoderIdentity> encoder = {};  // the encoder that made the vectors, if known
  // Live collections: the sequence of the last write of the log (collection/log/) that is merged into the shards.
  // nullopt if the manifest names none: the collection is not live, or its shards were built without regard to the log.
  std::optional<uint64_t> log_sequence = {};
  // If the collection is a partition of a larger one: the slots of its documents, never all slots. Its shards then have
  // ordinals (collection/shard.h).
  std::optional<SlotRange> partition = {};
  std::optional<CodesFormat> codes = {};  // if the collection has codes
  // The fields that requests can filter by. A collection with fields must have payloads, which contain the values. A
  // live collection's fields cannot change, because the writes in its log were checked against them.
  std::vector<Field> fields = {};

  SlotRange slots() const { return partition.value_or(SlotRange()); }
};

// Returns the bytes of a shard's file without the token vectors. Returns 0 if the entry's numbers are contradictory.
int64_t BytesBesideTokens(const Manifest& manifest, const ShardEntry& entry);

// Returns the shape of the collection's codes. Manifest::codes must have a value.
CodeShape CodeShapeOf(const Manifest& manifest);

// Returns "4 planes, with factors, rotation seed 0", or "none".
std::string DescribeCodes(const std::optional<CodesFormat>& codes);

// Returns the bytes of a shard's code files for the first 1, 2 or 4 planes.
int64_t CodeFileBytes(const ShardEntry& entry, int planes);

// Returns the fields as text in the form of ParseFields; "none" if there are none.
std::string DescribeFields(const std::vector<Field>& fields);

// Returns the size of a shard's field file; 0 if it has none.
int64_t FieldFileBytes(const ShardEntry& entry);

// Returns a hash of everything that answers depend on, such as the files' checksums in their order. It does not depend
// on names, times and the generation's number. Copies of a build have the same hash, and so have builds of the same
// documents by the same program.
std::string FingerprintOf(const Manifest& manifest);

// Returns the manifest's "format_version", which depends on the features of the collection, such as codes
// (manifest_parser.h).
int64_t FormatVersionOf(const Manifest& manifest);

std::string FormatManifest(const Manifest& manifest);

// Reads and checks the manifest of the collection in `folder`. Returns NOT_FOUND if there is none. If the file is not a
// manifest, the error does not quote its contents.
absl::StatusOr<Manifest> ReadManifest(const Folder& folder);
absl::StatusOr<Manifest> ReadManifest(const std::string& folder);

// Writes the manifest under a temporary name, syncs it, and renames it. If this returns OK, the generation is
// published, and `*synchronised` (`synchronised` may be null) says whether the rename is on disk: if `*synchronised` is
// an error, a power failure may bring back the previous generation.
absl::Status PublishManifest(const Manifest& manifest, const std::string& folder, absl::Status* synchronised = nullptr);

}  // namespace maxsim::collection
