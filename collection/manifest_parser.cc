#include "collection/manifest_parser.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "base/file.h"
#include "base/text.h"
#include "collection/collection_name.h"
#include "collection/encoder_identity.h"
#include "collection/manifest_events.h"
#include "kernels/limits.h"
#include "kernels/residual_codes.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {
namespace {

constexpr size_t kMaxFileNameBytes = 255;

// The maximum size of a shard's code file or field file, chosen so that sums of these sizes cannot overflow. A shard
// has at most 2^48 tokens, and a token has at most 2^10 bytes in a plane.
constexpr int64_t kMaxSideFileBytes = int64_t{1} << 60;

// Returns whether `name` is a plain file name: without folders, so that the file is in the collection's folder, and
// printable.
bool IsFileName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFileNameBytes && name[0] != '.' && IsUtf8(name) &&
         name.find_first_of("/\\") == std::string_view::npos && Printable(name, name.size()) == name;
}

absl::Status Range(std::string_view key, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Invalid(key, ": ", value, " is not in ", low, " .. ", high);
}

absl::Status CheckFile(const std::string& where, int64_t num_bytes, int64_t max_bytes, const std::string& checksum) {
  if (absl::Status s = Range(where + "num_bytes", num_bytes, 1, max_bytes); !s.ok()) return s;
  if (IsChecksum(checksum)) return absl::OkStatus();
  return Invalid(where, "checksum: ", Quote(checksum), ", expected \"xxh3-128:\" and 32 hex digits");
}

}  // namespace

absl::Status ManifestEvents::CheckFormatVersion() const {
  if (!top_[0].seen || format_ != kManifestFormat) {
    // Does not quote the text: this may be any file, and the caller may not be allowed to read it.
    return Invalid("format: is not \"", kManifestFormat, "\": this is not a manifest");
  }
  if (!top_[1].seen || format_version_ < kManifestFormatVersion || format_version_ > kFieldsFormatVersion) {
    return Invalid("format_version: ", format_version_, "; this version reads ", kManifestFormatVersion, " to ",
                   kFieldsFormatVersion);
  }
  return absl::OkStatus();
}

absl::Status ManifestEvents::Finish() {
  if (absl::Status status = CheckFormatVersion(); !status.ok()) return status;
  for (const Key& field : top_) {
    if (field.seen && field.key == kLogSequenceKey) {
      if (absl::Status s = Range(kLogSequenceKey, log_sequence_, 0, kMaxLogSequence); !s.ok()) return s;
      manifest_->log_sequence = static_cast<uint64_t>(log_sequence_);
    }
    if (!field.seen && field.key != kLogSequenceKey && field.key != kNumCentroidsKey)
      return Invalid("key \"", field.key, "\" is missing");
  }
  if (!shards_seen_) return absl::InvalidArgumentError("key \"shards\" is missing");
  if (absl::Status status = CheckCollectionName(manifest_->name); !status.ok()) return status;
  if (absl::Status s = Range("generation", manifest_->generation, 1, INT64_MAX - 1); !s.ok()) return s;
  if (absl::Status s = Range("dim", dim_, kMinDim, kMaxDim); !s.ok()) return s;
  manifest_->dim = static_cast<int32_t>(dim_);
  if (absl::Status status = CheckStorage(); !status.ok()) return status;
  if (id_type_ != Name(IdType::kString) && id_type_ != Name(IdType::kInt64)) {
    return Invalid("id_type: ", Quote(id_type_), ", expected \"string\" or \"int64\"");
  }
  manifest_->id_type = id_type_ == Name(IdType::kString) ? IdType::kString : IdType::kInt64;
  if (absl::Status status = CheckEncoder(); !status.ok()) return status;
  if (absl::Status status = CheckPartition(); !status.ok()) return status;
  if (absl::Status status = CheckCodes(); !status.ok()) return status;
  if (absl::Status status = CheckDeclaredFields(); !status.ok()) return status;
  return CheckShards();
}

absl::Status ManifestEvents::CheckPartition() {
  if (format_version_ == kPartitionFormatVersion && !partition_section_.seen) {
    return Invalid("key \"", kPartitionKey, "\" is missing, which format_version ", format_version_, " requires");
  }
  if (format_version_ == kManifestFormatVersion && partition_section_.seen) {
    return Invalid("partition: format_version ", format_version_, " has no partition; format_version ",
                   kPartitionFormatVersion, " has one");
  }
  if (!partition_section_.seen) return absl::OkStatus();
  if (absl::Status s = Range("partition: first_slot", first_slot_, 0, kNumSlots - 1); !s.ok()) return s;
  if (absl::Status s = Range("partition: end_slot", end_slot_, first_slot_ + 1, kNumSlots); !s.ok()) return s;
  const SlotRange slots{static_cast<int32_t>(first_slot_), static_cast<int32_t>(end_slot_)};
  if (slots.is_whole()) return Invalid("partition: 0 .. ", kNumSlots, " are all slots; a whole collection names none");
  manifest_->partition = slots;
  return absl::OkStatus();
}

absl::Status ManifestEvents::CheckCodes() {
  // Collections with fields may have codes.
  const bool has_codes =
      format_version_ == kFieldsFormatVersion ? codes_section_.seen : format_version_ == kCodesFormatVersion;
  if (codes_section_.seen != has_codes) {
    return has_codes
               ? Invalid("key \"", kCodesKey, "\" is missing, which format_version ", format_version_, " requires")
               : Invalid("codes: format_version ", format_version_, " has no codes; format_version ",
                         kCodesFormatVersion, " has");
  }
  if (!has_codes) return absl::OkStatus();
  if (code_planes_ < 1 || code_planes_ > kMaxPlanes || !IsPlaneCount(static_cast<int>(code_planes_))) {
    return Invalid("codes: planes: ", code_planes_, ", expected 1, 2 or 4");
  }
  if (code_rotation_kind_ != kRotationKind) {
    return Invalid("codes: rotation: ", Quote(code_rotation_kind_), ", expected \"", kRotationKind, "\"");
  }
  if (absl::Status s = Range("codes: rotation_seed", code_rotation_seed_, 0, kMaxRotationSeed); !s.ok()) return s;
  const auto seed = static_cast<uint64_t>(code_rotation_seed_);
  if (manifest_->storage == ScalarType::kI8 && seed != manifest_->rotation_seed) {
    return Invalid("codes: rotation_seed: ", seed, ", but the i8 vectors are rotated with seed ",
                   manifest_->rotation_seed);
  }
  manifest_->codes = CodesFormat{static_cast<int>(code_planes_), code_factors_, seed};
  return absl::OkStatus();
}

absl::Status ManifestEvents::CheckEncoder() {
  if (!encoder_section_.seen) return absl::OkStatus();
  for (const Key& field : encoder_section_.fields) {
    const bool is_required = field.key == "model" || field.key == "dim";
    if (is_required && !field.seen) return Invalid("encoder: key \"", field.key, "\" is missing");
  }
  if (encoder_dim_ != manifest_->dim) {
    return Invalid("encoder: dim: ", encoder_dim_, ", but the collection's dim is ", manifest_->dim);
  }
  if (absl::Status s = Range("encoder: query_length", query_length_, 0, kMaxEncoderLength); !s.ok()) return s;
  if (absl::Status s = Range("encoder: document_length", document_length_, 0, kMaxEncoderLength); !s.ok()) return s;
  encoder_.dim = static_cast<int32_t>(encoder_dim_);
  encoder_.query_length = static_cast<int32_t>(query_length_);
  encoder_.document_length = static_cast<int32_t>(document_length_);
  if (absl::Status status = CheckEncoderIdentity(encoder_); !status.ok()) return Prefix("encoder: ", status);
  manifest_->encoder = std::move(encoder_);
  return absl::OkStatus();
}

absl::Status ManifestEvents::CheckStorage() {
  const std::optional<ScalarType> storage = ScalarTypeFromName(storage_);
  if (!storage.has_value()) {
    return Invalid(
        "storage: ", Quote(storage_),
        " is not supported by this version (f16, bf16, f32, i8, residual1, residual2, residual4 and residual8 are)");
  }
  manifest_->storage = *storage;
  if (absl::Status status = CheckCentroids(); !status.ok()) return status;
  if (*storage != ScalarType::kI8) {
    if (!rotation_section_.seen) return absl::OkStatus();
    return Invalid("rotation: storage ", Name(*storage), " has none; only that of i8 is rotated");
  }
  if (!rotation_section_.seen) return absl::InvalidArgumentError("key \"rotation\" is missing, which storage i8 needs");
  if (rotation_kind_ != kRotationKind) {
    return Invalid("rotation: kind: ", Quote(rotation_kind_), ", expected \"", kRotationKind, "\"");
  }
  if (absl::Status s = Range("rotation: seed", rotation_seed_, 0, kMaxRotationSeed); !s.ok()) return s;
  manifest_->rotation_seed = static_cast<uint64_t>(rotation_seed_);
  return absl::OkStatus();
}

absl::Status ManifestEvents::CheckCentroids() {
  const ScalarType storage = manifest_->storage;
  const bool is_named =
      std::any_of(top_.begin(), top_.end(), [](const Key& key) { return key.seen && key.key == kNumCentroidsKey; });
  if (!IsResidual(storage)) {
    if (!is_named) return absl::OkStatus();
    return Invalid(kNumCentroidsKey, ": storage ", Name(storage), " has none; only residual codes have centroids");
  }
  if (!is_named) return Invalid("key \"", kNumCentroidsKey, "\" is missing, which ", Name(storage), " needs");
  if (manifest_->log_sequence.has_value()) {
    return Invalid("storage: the collection is live, but ", Name(storage), " is for collections that are not");
  }
  if (absl::Status s = Range(kNumCentroidsKey, num_centroids_, 1, kMaxCentroids); !s.ok()) return s;
  if (!TakesResidualDim(storage, dim_)) {
    return Invalid("dim: ", dim_, "; columns of ", Name(storage), " must fill whole bytes and be at most ",
                   kMaxResidualDim);
  }
  if (partition_section_.seen) return Invalid("partition: a collection of ", Name(storage), " is not cut");
  if (codes_section_.seen) return Invalid("codes: a collection of ", Name(storage), " has none");
  manifest_->num_centroids = num_centroids_;
  return absl::OkStatus();
}

absl::Status ManifestEvents::CheckDeclaredFields() const {
  const bool has_fields = format_version_ == kFieldsFormatVersion;
  if (declarations_seen_ != has_fields) {
    return has_fields
               ? Invalid("key \"", kFieldsKey, "\" is missing, which format_version ", format_version_, " requires")
               : Invalid("fields: format_version ", format_version_, " has no fields; format_version ",
                         kFieldsFormatVersion, " has");
  }
  if (!has_fields) return absl::OkStatus();
  if (manifest_->fields.empty())
    return Invalid("fields: is empty; format_version ", format_version_, " must have at least one");
  if (absl::Status status = CheckFields(manifest_->fields); !status.ok()) return Prefix("fields: ", status);
  if (!manifest_->has_payloads) {
    return Invalid("fields: has_payloads is false, but values of fields are read from payloads");
  }
  return absl::OkStatus();
}

absl::Status ManifestEvents::CheckFieldFile(const ShardEntry& entry, std::string_view where) const {
  if (manifest_->fields.empty()) {
    return entry.field_file.has_value() ? Invalid(where, "fields: the collection has none") : absl::OkStatus();
  }
  if (!entry.field_file.has_value()) return Invalid(where, "fields: is missing, but the collection has fields");
  const std::string file = Cat(where, "fields.");
  if (!IsFileName(entry.field_file->file)) {
    return Invalid(file, "file: ", Quote(entry.field_file->file), " is not a plain file name inside the folder");
  }
  return CheckFile(file, entry.field_file->num_bytes, kMaxSideFileBytes, entry.field_file->checksum);
}

absl::Status ManifestEvents::CheckCodeFiles(const ShardEntry& entry, std::string_view where) const {
  const size_t expected = manifest_->codes.has_value() ? NumCodeFiles(manifest_->codes->planes) : 0;
  if (entry.code_files.size() != expected) {
    return Invalid(where, "codes: ", entry.code_files.size(), " files, expected ", expected,
                   expected == 0 ? ": the collection has no codes" : "");
  }
  for (size_t idx = 0; idx < expected; ++idx) {
    const CodeFileEntry& code_file = entry.code_files[idx];
    const std::string file = Cat(where, "codes[", idx, "].");
    if (!IsFileName(code_file.file)) {
      return Invalid(file, "file: ", Quote(code_file.file), " is not a plain file name inside the folder");
    }
    if (absl::Status s = CheckFile(file, code_file.num_bytes, kMaxSideFileBytes, code_file.checksum); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status ManifestEvents::CheckShards() const {
  if (static_cast<int64_t>(manifest_->shards.size()) > kMaxShards) {
    return Invalid("shards: ", manifest_->shards.size(), " of them, the limit is ", kMaxShards);
  }
  std::unordered_set<std::string_view> files;
  int64_t num_documents = 0;
  int64_t num_tokens = 0;
  for (size_t idx = 0; idx < manifest_->shards.size(); ++idx) {
    const ShardEntry& entry = manifest_->shards[idx];
    const std::string where = Cat("shards[", idx, "].");
    if (!IsFileName(entry.file)) {
      return Invalid(where, "file: ", Quote(entry.file), " is not a plain file name inside the folder");
    }
    if (!files.insert(entry.file).second) {
      return Invalid(where, "file: ", Quote(entry.file), " appears twice");
    }
    if (absl::Status s = Range(where + "num_documents", entry.num_documents, 1, kMaxShardDocuments); !s.ok()) return s;
    // The product cannot overflow: a shard has fewer than 2^32 documents, and a document has at most 2^16 tokens.
    if (absl::Status s = Range(where + "num_tokens", entry.num_tokens, entry.num_documents,
                               entry.num_documents * kMaxDocumentTokens);
        !s.ok()) {
      return s;
    }
    if (absl::Status s = CheckFile(where, entry.num_bytes, INT64_MAX, entry.checksum); !s.ok()) return s;
    if (absl::Status s = CheckCodeFiles(entry, where); !s.ok()) return s;
    for (const CodeFileEntry& code_file : entry.code_files) {
      if (!files.insert(code_file.file).second) {
        return Invalid(where, "codes: file: ", Quote(code_file.file), " appears twice");
      }
    }
    if (absl::Status s = CheckFieldFile(entry, where); !s.ok()) return s;
    if (entry.field_file.has_value() && !files.insert(entry.field_file->file).second) {
      return Invalid(where, "fields: file: ", Quote(entry.field_file->file), " appears twice");
    }
    if (__builtin_add_overflow(num_documents, entry.num_documents, &num_documents) ||
        __builtin_add_overflow(num_tokens, entry.num_tokens, &num_tokens)) {
      return Invalid(where, "num_tokens: the sum over the shards passes 2^63");
    }
  }
  if (num_documents != manifest_->num_documents) {
    return Invalid("num_documents: ", manifest_->num_documents, ", but the shards' sum is ", num_documents);
  }
  if (num_tokens != manifest_->num_tokens) {
    return Invalid("num_tokens: ", manifest_->num_tokens, ", but the shards' sum is ", num_tokens);
  }
  return absl::OkStatus();
}

absl::StatusOr<Manifest> ParseManifest(std::string_view json, std::string_view origin) {
  Manifest manifest;
  ManifestEvents events(&manifest);
  absl::Status status = events.Parse(json);
  if (status.ok()) status = events.Finish();
  if (!status.ok()) return Prefix(Cat(origin, ": "), status);
  return manifest;
}

}  // namespace maxsim::collection
