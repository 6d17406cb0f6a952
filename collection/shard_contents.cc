#include "collection/shard_contents.h"

#include <bit>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/file.h"
#include "base/text.h"
#include "collection/formats/safetensors.h"
#include "collection/positions.h"
#include "kernels/limits.h"
#include "kernels/residual_codes.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {
namespace {

static_assert(std::endian::native == std::endian::little, "shard files are little-endian and read in place");

// Returns the difference between consecutive offsets if it is the same everywhere; otherwise 0.
int64_t EqualLength(const Int64Array& offsets, int64_t num_documents) {
  const int64_t length = offsets[1];
  for (int64_t idx = 2; idx <= num_documents; ++idx) {
    if (offsets[idx] != idx * length) return 0;
  }
  return length;
}

// Returns the residual type with this many bucket weights, or nullopt.
std::optional<ScalarType> ResidualTypeOf(int64_t num_weights) {
  for (const ScalarType type :
       {ScalarType::kResidual1, ScalarType::kResidual2, ScalarType::kResidual4, ScalarType::kResidual8}) {
    if (num_weights == int64_t{1} << ResidualBits(type)) return type;
  }
  return std::nullopt;
}

// A file while its parts are being read.
struct Parser {
  std::string_view bytes;
  SafetensorsHeader header;
  ShardContents contents;
  const StopSignal* stop = nullptr;

  const uint8_t* At(int64_t offset) const { return reinterpret_cast<const uint8_t*>(bytes.data()) + offset; }

  absl::StatusOr<const SafetensorsTensor*> Tensor(std::string_view name, std::string_view dtype) const;
  absl::StatusOr<Int64Array> Offsets(std::string_view name, int64_t num_bytes, int64_t low, int64_t high) const;
  absl::StatusOr<std::string_view> Bytes(std::string_view name) const;
  absl::Status ParseTokens();
  absl::Status ParseDim(int64_t columns);
  absl::Status ParseCodebook(const SafetensorsTensor& tokens);
  absl::Status ParseScales();
  absl::Status ParseOrdinals();
  absl::Status ParseIds();
  absl::Status ParsePayloads();
};

absl::StatusOr<const SafetensorsTensor*> Parser::Tensor(std::string_view name, std::string_view dtype) const {
  const SafetensorsTensor* tensor = header.Find(name);
  if (tensor == nullptr) return Invalid("tensor \"", name, "\" is missing");
  if (tensor->dtype != dtype) return Invalid(name, ": dtype ", Quote(tensor->dtype), ", expected ", dtype);
  if (tensor->shape.size() != 1) return Invalid(name, ": ", tensor->shape.size(), " dimensions, expected 1");
  return tensor;
}

// Reads an I64 [N + 1] tensor of offsets. The first must be 0 and the last `total`; each must exceed the previous one
// by `low` .. `high`.
absl::StatusOr<Int64Array> Parser::Offsets(std::string_view name, int64_t total, int64_t low, int64_t high) const {
  absl::StatusOr<const SafetensorsTensor*> tensor = Tensor(name, "I64");
  if (!tensor.ok()) return tensor.status();
  const int64_t count = contents.num_documents;
  if ((*tensor)->shape[0] != count + 1) {
    return Invalid(name, ": ", (*tensor)->shape[0], " entries, expected ", count + 1, " for ", count, " documents");
  }
  Int64Array array(At((*tensor)->begin), count + 1);
  const int64_t* values = array.data();
  if (values[0] != 0) return Invalid(name, "[0]: ", values[0], ", expected 0");
  for (int64_t idx = 0; idx < count; ++idx) {
    if (idx % kStopBlockDocuments == 0) {
      if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    }
    // Checks each value before subtracting, so that the difference cannot overflow.
    if (values[idx + 1] < values[idx] || values[idx + 1] > total) {
      return Invalid(name, "[", idx + 1, "]: ", values[idx + 1], " is not in ", values[idx], " .. ", total);
    }
    const int64_t step = values[idx + 1] - values[idx];
    if (step < low || step > high) {
      return Invalid(name, "[", idx + 1, "]: ", step, " after entry ", idx, ", expected ", low, " .. ", high);
    }
  }
  if (values[count] != total) return Invalid(name, ": ends at ", values[count], ", expected ", total);
  return array;
}

absl::StatusOr<std::string_view> Parser::Bytes(std::string_view name) const {
  absl::StatusOr<const SafetensorsTensor*> tensor = Tensor(name, "U8");
  if (!tensor.ok()) return tensor.status();
  return bytes.substr(static_cast<size_t>((*tensor)->begin), static_cast<size_t>((*tensor)->num_bytes()));
}

absl::Status Parser::ParseDim(int64_t columns) {
  if (columns < kMinDim || columns > kMaxDim) {
    return Invalid("tokens: ", columns, " columns; must be ", kMinDim, " to ", kMaxDim);
  }
  contents.dim = static_cast<int32_t>(columns);
  return absl::OkStatus();
}

// Reads the codebook, which is needed to decode rows of residual codes. Its shapes also determine the dimension and the
// number of bits.
absl::Status Parser::ParseCodebook(const SafetensorsTensor& tokens) {
  absl::StatusOr<const SafetensorsTensor*> weights = Tensor(kBucketWeights, "F32");
  if (!weights.ok()) return weights.status();
  const int64_t num_weights = (*weights)->shape[0];
  const std::optional<ScalarType> storage = ResidualTypeOf(num_weights);
  if (!storage.has_value()) return Invalid("bucket_weights: ", num_weights, " entries, expected 2, 4, 16 or 256");
  contents.storage = *storage;
  const SafetensorsTensor* centroids = header.Find(kCentroids);
  if (centroids == nullptr) return Invalid("tensor \"centroids\" is missing");
  if (centroids->dtype != "F16") return Invalid("centroids: dtype ", Quote(centroids->dtype), ", expected F16");
  if (centroids->shape.size() != 2) return Invalid("centroids: ", centroids->shape.size(), " dimensions, expected 2");
  if (centroids->shape[0] < 1 || centroids->shape[0] > kMaxCentroids) {
    return Invalid("centroids: ", centroids->shape[0], " of them; must be 1 to ", kMaxCentroids);
  }
  if (absl::Status status = ParseDim(centroids->shape[1]); !status.ok()) return status;
  if (!TakesResidualDim(*storage, contents.dim)) {
    return Invalid("centroids: ", contents.dim, " columns; those of ", Name(*storage),
                   " must fill whole bytes and be at most ", kMaxResidualDim);
  }
  if (tokens.shape[1] != RowBytes(*storage, contents.dim)) {
    return Invalid("tokens: rows of ", tokens.shape[1], " bytes, expected ", RowBytes(*storage, contents.dim), " of ",
                   Name(*storage), " and ", contents.dim, " columns");
  }
  contents.num_centroids = centroids->shape[0];
  contents.centroids = HalfArray(At(centroids->begin), contents.num_centroids * contents.dim);
  contents.bucket_weights = FloatArray(At((*weights)->begin), num_weights);
  for (int64_t idx = 0; idx < num_weights; ++idx) {
    // This form of the condition also refuses NaN.
    if (!(std::fabs(contents.bucket_weights[idx]) <= kMaxResidualValue)) {
      return Invalid("bucket_weights[", idx, "]: ", contents.bucket_weights[idx], " is not in +-", kMaxResidualValue);
    }
  }
  for (int64_t idx = 0; idx < contents.num_centroids * contents.dim; ++idx) {
    if (idx % kStopBlockDocuments == 0) {
      if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    }
    const float value = F16ToF32(contents.centroids[idx]);
    if (!(std::fabs(value) <= kMaxResidualValue)) {
      return Invalid("centroids[", idx / contents.dim, "][", idx % contents.dim, "]: ", value, " is not in +-",
                     kMaxResidualValue);
    }
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseTokens() {
  const SafetensorsTensor* tensor = header.Find(kTokens);
  if (tensor == nullptr) return Invalid("tensor \"tokens\" is missing");
  if (tensor->dtype == "F16") {
    contents.storage = ScalarType::kF16;
  } else if (tensor->dtype == "BF16") {
    contents.storage = ScalarType::kBF16;
  } else if (tensor->dtype == "F32") {
    contents.storage = ScalarType::kF32;
  } else if (tensor->dtype == "I8") {
    contents.storage = ScalarType::kI8;
  } else if (tensor->dtype != "U8") {
    return Invalid("tokens: dtype ", Quote(tensor->dtype),
                   " is not supported by this version (F16, BF16, F32, I8 and, for residual codes, U8 are)");
  }
  if (tensor->shape.size() != 2) return Invalid("tokens: ", tensor->shape.size(), " dimensions, expected 2");
  absl::Status status = tensor->dtype == "U8" ? ParseCodebook(*tensor) : ParseDim(tensor->shape[1]);
  if (!status.ok()) return status;
  if (tensor->begin % kTokenAlignment != 0) {
    return Invalid("tokens: start at byte ", tensor->begin, " of the file, which is not a multiple of ",
                   kTokenAlignment);
  }
  contents.num_tokens = tensor->shape[0];
  contents.tokens = At(tensor->begin);

  absl::StatusOr<const SafetensorsTensor*> offsets = Tensor(kOffsets, "I64");
  if (!offsets.ok()) return offsets.status();
  const int64_t num_documents = (*offsets)->shape[0] - 1;
  if (num_documents < 1 || num_documents > kMaxShardDocuments) {
    return Invalid("offsets: ", num_documents, " documents; must be 1 to ", kMaxShardDocuments);
  }
  contents.num_documents = num_documents;
  absl::StatusOr<Int64Array> array = Offsets(kOffsets, contents.num_tokens, 1, kMaxDocumentTokens);
  if (!array.ok()) return array.status();
  contents.offsets = *std::move(array);
  contents.document_tokens = EqualLength(contents.offsets, num_documents);
  return absl::OkStatus();
}

absl::Status Parser::ParseScales() {
  if (!IsResidual(contents.storage) && (header.Find(kCentroids) != nullptr || header.Find(kBucketWeights) != nullptr)) {
    return Invalid("centroids, bucket_weights: tokens of type ", Name(contents.storage), " have none");
  }
  const std::optional<std::string_view> kind = header.FindMetadata(kRotationKey);
  const std::optional<std::string_view> seed = header.FindMetadata(kRotationSeedKey);
  if (contents.storage != ScalarType::kI8) {
    if (header.Find(kScales) != nullptr)
      return Invalid("scales: tokens of type ", Name(contents.storage), " have none");
    if (kind.has_value() || seed.has_value()) {
      return Invalid("__metadata__.rotation: tokens of type ", Name(contents.storage), " have none");
    }
    return absl::OkStatus();
  }
  const absl::StatusOr<uint64_t> rotation = ParseRotation(kind.value_or(""), seed.value_or(""));
  if (!rotation.ok()) return rotation.status();
  contents.rotation_seed = *rotation;
  absl::StatusOr<const SafetensorsTensor*> tensor = Tensor(kScales, "F32");
  if (!tensor.ok()) return tensor.status();
  if ((*tensor)->shape[0] != contents.num_documents) {
    return Invalid("scales: ", (*tensor)->shape[0], " entries, expected ", contents.num_documents);
  }
  contents.scales = FloatArray(At((*tensor)->begin), contents.num_documents);
  for (int64_t idx = 0; idx < contents.num_documents; ++idx) {
    const float scale = contents.scales[idx];
    // This form of the condition also refuses NaN.
    if (!(scale >= 0 && scale <= kMaxScale)) {
      return Invalid("scales[", idx, "]: ", scale, " is not in 0 .. ", kMaxScale);
    }
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseOrdinals() {
  contents.has_ordinals = header.Find(kOrdinals) != nullptr;
  if (!contents.has_ordinals) return absl::OkStatus();
  absl::StatusOr<const SafetensorsTensor*> tensor = Tensor(kOrdinals, "I64");
  if (!tensor.ok()) return tensor.status();
  if ((*tensor)->shape[0] != contents.num_documents) {
    return Invalid("ordinals: ", (*tensor)->shape[0], " entries, expected ", contents.num_documents);
  }
  contents.ordinals = Int64Array(At((*tensor)->begin), contents.num_documents);
  int64_t least = 0;
  for (int64_t idx = 0; idx < contents.num_documents; ++idx) {
    if (idx % kStopBlockDocuments == 0) {
      if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    }
    const int64_t ordinal = contents.ordinals[idx];
    if (ordinal < least || ordinal > kMaxPosition) {
      return Invalid("ordinals[", idx, "]: ", ordinal, " is not in ", least, " .. ", kMaxPosition);
    }
    least = ordinal + 1;
  }
  return absl::OkStatus();
}

absl::Status Parser::ParseIds() {
  if (header.Find(kIds) != nullptr) {
    if (header.Find(kIdBytes) != nullptr || header.Find(kIdOffsets) != nullptr) {
      return Invalid("ids and id_bytes/id_offsets exclude each other");
    }
    absl::StatusOr<const SafetensorsTensor*> tensor = Tensor(kIds, "I64");
    if (!tensor.ok()) return tensor.status();
    if ((*tensor)->shape[0] != contents.num_documents) {
      return Invalid("ids: ", (*tensor)->shape[0], " entries, expected ", contents.num_documents);
    }
    contents.id_type = IdType::kInt64;
    contents.ids = Int64Array(At((*tensor)->begin), contents.num_documents);
    return absl::OkStatus();
  }
  contents.id_type = IdType::kString;
  absl::StatusOr<std::string_view> id_bytes = Bytes(kIdBytes);
  if (!id_bytes.ok()) return id_bytes.status();
  contents.id_bytes = *id_bytes;
  absl::StatusOr<Int64Array> offsets = Offsets(kIdOffsets, static_cast<int64_t>(id_bytes->size()), 1, kMaxIdBytes);
  if (!offsets.ok()) return offsets.status();
  contents.id_offsets = *std::move(offsets);
  contents.id_size = EqualLength(contents.id_offsets, contents.num_documents);
  for (int64_t idx = 0; idx < contents.num_documents; ++idx) {
    if (idx % kStopBlockDocuments == 0) {
      if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    }
    if (!IsUtf8(contents.string_id(idx))) return Invalid("id_bytes: the id of document ", idx, " is not UTF-8");
  }
  return absl::OkStatus();
}

absl::Status Parser::ParsePayloads() {
  contents.has_payloads = header.Find(kPayloadBytes) != nullptr || header.Find(kPayloadOffsets) != nullptr;
  if (!contents.has_payloads) return absl::OkStatus();
  absl::StatusOr<std::string_view> payload_bytes = Bytes(kPayloadBytes);
  if (!payload_bytes.ok()) return payload_bytes.status();
  contents.payload_bytes = *payload_bytes;
  absl::StatusOr<Int64Array> offsets =
      Offsets(kPayloadOffsets, static_cast<int64_t>(payload_bytes->size()), 0, kMaxPayloadBytes);
  if (!offsets.ok()) return offsets.status();
  contents.payload_offsets = *std::move(offsets);
  // Checks that each payload by itself is UTF-8: an offset may be in the middle of a character. One invalid payload
  // would make the whole answer to a request unreadable.
  for (int64_t idx = 0; idx < contents.num_documents; ++idx) {
    // Checks the stop signal more often than elsewhere, because payloads are large.
    if (idx % (kStopBlockDocuments / 16) == 0) {
      if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    }
    if (!IsUtf8(contents.payload(idx))) return Invalid("payload_bytes: the payload of document ", idx, " is not UTF-8");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> ParseRotation(std::string_view kind, std::string_view seed) {
  if (kind != kRotationKind) {
    return Invalid("__metadata__.rotation: ", Quote(kind), ", expected \"", kRotationKind, "\"");
  }
  uint64_t value = 0;
  // The seed must have no sign, blanks or leading zeros.
  if (!absl::SimpleAtoi(ForStrCat(seed), &value) || value > static_cast<uint64_t>(kMaxRotationSeed) ||
      Cat(value) != seed) {
    return Invalid("__metadata__.rotation_seed: ", Quote(seed), " is not an integer in 0 .. ", kMaxRotationSeed);
  }
  return value;
}

absl::StatusOr<ShardContents> ParseShard(std::string_view bytes, const StopSignal* stop) {
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(bytes, static_cast<int64_t>(bytes.size()));
  if (!header.ok()) return header.status();
  if (absl::Status status = CheckFormat(*header, kShardFormat, kShardFormatVersion); !status.ok()) return status;
  Parser parser{bytes, *std::move(header), {}, stop};
  if (absl::Status status = parser.ParseTokens(); !status.ok()) return status;
  if (absl::Status status = parser.ParseScales(); !status.ok()) return status;
  if (absl::Status status = parser.ParseOrdinals(); !status.ok()) return status;
  if (absl::Status status = parser.ParseIds(); !status.ok()) return status;
  if (absl::Status status = parser.ParsePayloads(); !status.ok()) return status;
  return std::move(parser.contents);
}

}  // namespace maxsim::collection
