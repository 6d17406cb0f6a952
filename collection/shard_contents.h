// Parses and checks the bytes of a shard file. The format is described in docs/reference/formats.md.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/manifest.h"
#include "kernels/maxsim.h"
#include "kernels/quantize.h"

namespace maxsim::collection {

inline constexpr std::string_view kShardFormat = "maxsim-shard";
inline constexpr std::string_view kShardFormatVersion = "1";

// Tensor names.
inline constexpr std::string_view kTokens = "tokens";                   // storage type [T, d]; residual codes: U8 rows
inline constexpr std::string_view kOffsets = "offsets";                 // I64 [N + 1]
inline constexpr std::string_view kOrdinals = "ordinals";               // I64 [N], of a partition's shards
inline constexpr std::string_view kScales = "scales";                   // F32 [N], i8
inline constexpr std::string_view kBucketWeights = "bucket_weights";    // F32 [2^bits], residual codes
inline constexpr std::string_view kCentroids = "centroids";             // F16 [K, d], residual codes
inline constexpr std::string_view kIds = "ids";                         // I64 [N], int64 ids
inline constexpr std::string_view kIdOffsets = "id_offsets";            // I64 [N + 1], string ids
inline constexpr std::string_view kIdBytes = "id_bytes";                // U8 [B], string ids
inline constexpr std::string_view kPayloadOffsets = "payload_offsets";  // I64 [N + 1], optional
inline constexpr std::string_view kPayloadBytes = "payload_bytes";      // U8 [P], optional

// Readers need the tokens at a multiple of this number of bytes, both in the file and in memory.
inline constexpr int64_t kTokenAlignment = 64;

// Writers put the tokens at a multiple of a page, so that a reader can bypass the page cache (direct I/O).
inline constexpr int64_t kWriterAlignment = 4096;

// Metadata keys of i8 shards that say how the rows were rotated: kRotationKind, and the seed in decimal. So a file can
// be read without its manifest.
inline constexpr std::string_view kRotationKey = "rotation";
inline constexpr std::string_view kRotationSeedKey = "rotation_seed";

// The largest scale of an i8 document, so that no value exceeds kMaxAbsValue.
inline constexpr float kMaxScale = kMaxAbsValue / static_cast<float>(kMaxInt8);

// Maximum size of a document's payload.
inline constexpr int64_t kMaxPayloadBytes = int64_t{1} << 20;

// An array of little-endian numbers: a view of the file's bytes or, if these are not aligned, a copy.
template <typename T>
class FileArray {
 public:
  FileArray() = default;
  FileArray(const uint8_t* bytes, int64_t count) {
    if (reinterpret_cast<uintptr_t>(bytes) % alignof(T) == 0) {
      data_ = reinterpret_cast<const T*>(bytes);
    } else if (count > 0) {
      copy_.resize(static_cast<size_t>(count));
      std::memcpy(copy_.data(), bytes, copy_.size() * sizeof(T));
    }
  }
  const T* data() const { return copy_.empty() ? data_ : copy_.data(); }
  T operator[](int64_t idx) const { return data()[idx]; }

 private:
  const T* data_ = nullptr;
  std::vector<T> copy_;
};

using Int64Array = FileArray<int64_t>;
using FloatArray = FileArray<float>;
using HalfArray = FileArray<uint16_t>;

// The parsed contents of a shard file. They point into the parsed bytes, which must outlive this object.
struct ShardContents {
  ScalarType storage = ScalarType::kF16;
  int32_t dim = 0;
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  IdType id_type = IdType::kString;
  bool has_payloads = false;

  const uint8_t* tokens = nullptr;
  Int64Array offsets;
  int64_t document_tokens = 0;  // tokens of every document if all have the same number, otherwise 0
  FloatArray scales;            // i8 only
  uint64_t rotation_seed = 0;   // i8 only
  int64_t num_centroids = 0;    // this and the next two: of residual codes
  HalfArray centroids;
  FloatArray bucket_weights;
  // Only partitions: the documents' positions in the whole collection (positions.h), strictly ascending.
  bool has_ordinals = false;
  Int64Array ordinals;
  Int64Array ids;
  Int64Array id_offsets;
  std::string_view id_bytes;
  int64_t id_size = 0;  // bytes of every string id if all have the same length, otherwise 0
  Int64Array payload_offsets;
  std::string_view payload_bytes;

  DocumentsView documents() const {
    return {.type = storage,
            .dim = dim,
            .num_documents = num_documents,
            .tokens = tokens,
            .offsets = offsets.data(),
            .scales = scales.data(),
            .rotation_seed = rotation_seed,
            .codebook = {num_centroids, centroids.data(), bucket_weights.data()},
            .document_tokens = document_tokens};
  }
  std::string_view string_id(int64_t ordinal) const {
    const int64_t begin = id_offsets[ordinal];
    return id_bytes.substr(static_cast<size_t>(begin), static_cast<size_t>(id_offsets[ordinal + 1] - begin));
  }
  std::string_view payload(int64_t ordinal) const {
    if (!has_payloads) return {};
    const int64_t begin = payload_offsets[ordinal];
    return payload_bytes.substr(static_cast<size_t>(begin), static_cast<size_t>(payload_offsets[ordinal + 1] - begin));
  }
};

// Parses the metadata of a rotation and returns its seed. Returns INVALID_ARGUMENT if the kind is not kRotationKind, or
// the seed is not a decimal number up to kMaxRotationSeed.
absl::StatusOr<uint64_t> ParseRotation(std::string_view kind, std::string_view seed);

// Parses a whole file and checks everything but token values, repeated ids and the JSON of payloads. `bytes` must be
// aligned to kTokenAlignment in memory. Returns INVALID_ARGUMENT with tensor, place, value and expected value. `stop`
// may be null; once it is stopped, returns its status.
absl::StatusOr<ShardContents> ParseShard(std::string_view bytes, const StopSignal* stop = nullptr);

}  // namespace maxsim::collection
