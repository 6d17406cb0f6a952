// The bytes of a shard file, checked and taken apart: a pure parser, shared by the reader, the verifier, the importer
// and the fuzzer. The format is described in docs/shard-format.md.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/maxsim.h"
#include "server/shard/manifest.h"

namespace maxsim::shard {

inline constexpr std::string_view kShardFormat = "maxsim-shard";
inline constexpr std::string_view kShardFormatVersion = "1";

// Tensor names.
inline constexpr std::string_view kTokens = "tokens";                   // storage type [T, d]
inline constexpr std::string_view kOffsets = "offsets";                 // I64 [N + 1]
inline constexpr std::string_view kIds = "ids";                         // I64 [N], int64 ids
inline constexpr std::string_view kIdOffsets = "id_offsets";            // I64 [N + 1], string ids
inline constexpr std::string_view kIdBytes = "id_bytes";                // U8 [B], string ids
inline constexpr std::string_view kPayloadOffsets = "payload_offsets";  // I64 [N + 1], optional
inline constexpr std::string_view kPayloadBytes = "payload_bytes";      // U8 [P], optional

// Readers need the tokens at a multiple of this, in the file and in memory.
inline constexpr int64_t kTokenAlignment = 64;

// Writers put them at a multiple of a page, so that a file can be read past the page cache straight to where it goes.
inline constexpr int64_t kWriterAlignment = 4096;

// Bytes of a document's payload.
inline constexpr int64_t kMaxPayloadBytes = int64_t{1} << 20;

// Little-endian 64-bit integers inside the file's bytes, or a copy of them where the file has them misaligned.
class Int64Array {
 public:
  Int64Array() = default;
  Int64Array(const uint8_t* bytes, int64_t count);
  const int64_t* data() const { return copy_.empty() ? data_ : copy_.data(); }
  int64_t operator[](int64_t idx) const { return data()[idx]; }

 private:
  const int64_t* data_ = nullptr;
  std::vector<int64_t> copy_;
};

// Everything points into the bytes that were parsed, which must outlive it.
struct ShardContents {
  ScalarType storage = ScalarType::kF16;
  int32_t dim = 0;
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  IdType id_type = IdType::kString;
  bool has_payloads = false;

  const uint8_t* tokens = nullptr;
  Int64Array offsets;
  Int64Array ids;
  Int64Array id_offsets;
  std::string_view id_bytes;
  Int64Array payload_offsets;
  std::string_view payload_bytes;

  DocumentsView documents() const { return {storage, dim, num_documents, tokens, offsets.data()}; }
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

// Checks the whole structure: format marker, types, shapes, every offset, every id's length and encoding, every
// payload's encoding. Not checked: token values, whether ids repeat, what payloads say. `bytes` is the whole file and
// starts at a multiple of kTokenAlignment in memory. INVALID_ARGUMENT names tensor, place, value and what was expected.
absl::StatusOr<ShardContents> ParseShard(std::string_view bytes);

}  // namespace maxsim::shard
