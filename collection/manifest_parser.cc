#include "collection/manifest_parser.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/file.h"
#include "base/json_events.h"
#include "base/text.h"
#include "collection/collection_name.h"
#include "collection/encoder_identity.h"
#include "kernels/limits.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {
namespace {

constexpr size_t kMaxFileNameBytes = 255;
constexpr int kMaxDepth = 8;  // 3 are used; the rest is room for keys of later versions

// A name without folders or controls, so that it stays in the collection's folder and can be shown as it is.
bool IsFileName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxFileNameBytes && name[0] != '.' && IsUtf8(name) &&
         name.find_first_of("/\\") == std::string_view::npos && Printable(name, name.size()) == name;
}

// Holds one key of an object: how to take its value, and whether it has been seen.
struct Field {
  std::string_view key;
  int64_t* integer = nullptr;
  std::string* text = nullptr;
  bool* boolean = nullptr;
  bool seen = false;
};

// Holds an object of known keys that is the value of one of the manifest's.
struct Section {
  std::string_view key;
  bool needs_all_fields = false;
  std::vector<Field> fields = {};
  bool seen = false;
};

// Takes the manifest's events. Level 1 is the manifest's object, level 2 that of a section, level 3 an object of
// "shards"; everything else is skipped.
class ManifestEvents : public JsonEvents {
 public:
  explicit ManifestEvents(Manifest* manifest) : JsonEvents(kMaxDepth, Text::kSecret), manifest_(manifest) {
    top_ = {{{.key = "format", .text = &format_},
             {.key = "format_version", .integer = &format_version_},
             {.key = "name", .text = &manifest->name},
             {.key = "generation", .integer = &manifest->generation},
             {.key = "dim", .integer = &dim_},
             {.key = "storage", .text = &storage_},
             {.key = "id_type", .text = &id_type_},
             {.key = "has_payloads", .boolean = &manifest->has_payloads},
             {.key = "num_documents", .integer = &manifest->num_documents},
             {.key = "num_tokens", .integer = &manifest->num_tokens},
             {.key = "created_by", .text = &manifest->created_by},
             {.key = "created_at", .text = &manifest->created_at},
             {.key = kLogSequenceKey, .integer = &log_sequence_}}};
    encoder_section_.fields = {{.key = "model", .text = &encoder_.model},
                               {.key = "dim", .integer = &encoder_dim_},
                               {.key = "fingerprint", .text = &encoder_.fingerprint},
                               {.key = "query_prefix", .text = &encoder_.query_prefix},
                               {.key = "document_prefix", .text = &encoder_.document_prefix},
                               {.key = "query_length", .integer = &query_length_},
                               {.key = "document_length", .integer = &document_length_},
                               {.key = "query_expansion", .boolean = &encoder_.query_expansion}};
    rotation_section_.fields = {{.key = "kind", .text = &rotation_kind_}, {.key = "seed", .integer = &rotation_seed_}};
    partition_section_.fields = {{.key = kFirstSlotKey, .integer = &first_slot_},
                                 {.key = kEndSlotKey, .integer = &end_slot_}};
  }

  // Makes the checks that need the whole object, after a successful parse.
  absl::Status Finish();

 private:
  absl::Status CheckStorage();
  absl::Status CheckShards() const;
  absl::Status CheckEncoder();
  absl::Status CheckPartition();

  bool OnKey(std::string& key) override {
    field_ = nullptr;
    if (depth() == 1) {
      at_shards_ = key == "shards";
      if (at_shards_ && std::exchange(shards_seen_, true)) return Fail("key \"shards\" appears twice");
      at_section_ = nullptr;
      for (Section* const section : {&encoder_section_, &rotation_section_, &partition_section_}) {
        if (key != section->key) continue;
        if (std::exchange(section->seen, true)) return Fail(Cat("key \"", key, "\" appears twice"));
        at_section_ = section;
      }
      return Select(top_, key, "");
    }
    if (depth() == 2 && in_section_ != nullptr) return Select(in_section_->fields, key, Where());
    if (depth() == 3 && in_shards_) return Select(entry_fields_, key, Where());
    return true;
  }

  template <typename Fields>
  bool Select(Fields& fields, std::string_view key, std::string_view where) {
    for (Field& field : fields) {
      if (field.key != key) continue;
      if (std::exchange(field.seen, true)) return Fail(Cat(where, "key \"", key, "\" appears twice"));
      field_ = &field;
    }
    return true;
  }

  bool Value(std::string_view kind) override {
    if (depth() == 0) return Fail("not a JSON object");
    if (depth() == 1 && std::exchange(at_shards_, false)) return Fail(Cat("shards: an array expected, not ", kind));
    if (depth() == 1 && at_section_ != nullptr) return Fail(Cat(at_section_->key, ": an object expected, not ", kind));
    if (depth() == 2 && in_shards_) return Fail(Cat(Where(), "an object expected, not ", kind));
    if (Field* field = TakeField()) {
      return Fail(Cat(Where(), field->key, ": ",
                      field->integer != nullptr ? "an integer"
                      : field->text != nullptr  ? "a string"
                                                : "true or false",
                      " expected, not ", kind));
    }
    return true;
  }
  bool OnBool(bool value) override {
    if (field_ == nullptr || field_->boolean == nullptr) return Value("a boolean");
    *TakeField()->boolean = value;
    return true;
  }
  bool OnInteger(int64_t value) override {
    if (field_ == nullptr || field_->integer == nullptr) return Value("an integer");
    *TakeField()->integer = value;
    return true;
  }
  bool OnString(std::string& value) override {
    if (field_ == nullptr || field_->text == nullptr) return Value("a string");
    *TakeField()->text = std::move(value);
    return true;
  }
  bool OnStartObject() override {
    if (depth() == 1) return true;
    if (depth() == 2 && at_section_ != nullptr) {
      in_section_ = std::exchange(at_section_, nullptr);
      return true;
    }
    if (depth() == 3 && in_shards_) {
      entry_ = ShardEntry();
      entry_fields_ = {{{.key = "file", .text = &entry_.file},
                        {.key = "num_documents", .integer = &entry_.num_documents},
                        {.key = "num_tokens", .integer = &entry_.num_tokens},
                        {.key = "num_bytes", .integer = &entry_.num_bytes},
                        {.key = "checksum", .text = &entry_.checksum}}};
      return true;
    }
    return RefuseContainer("an object");
  }
  bool OnEndObject() override {
    if (depth() == 1 && in_section_ != nullptr) {
      for (const Field& field : in_section_->fields) {
        if (in_section_->needs_all_fields && !field.seen) {
          return Fail(Cat(Where(), "key \"", field.key, "\" is missing"));
        }
      }
      in_section_ = nullptr;
    }
    if (depth() != 2 || !in_shards_) return true;
    for (const Field& field : entry_fields_) {
      if (!field.seen) return Fail(Cat(Where(), "key \"", field.key, "\" is missing"));
    }
    manifest_->shards.push_back(std::move(entry_));
    return true;
  }
  bool OnStartArray() override {
    if (depth() == 2 && std::exchange(at_shards_, false)) {
      in_shards_ = true;
      return true;
    }
    return RefuseContainer("an array");
  }
  bool OnEndArray() override {
    if (depth() == 1) in_shards_ = false;
    return true;
  }

  // A container where a known key wants a scalar, or in the wrong place, is an error; below unknown keys it is skipped.
  bool RefuseContainer(std::string_view kind) {
    if (depth() == 1) return Fail("not a JSON object");
    if (depth() == 2 && at_shards_) return Fail(Cat("shards: an array expected, not ", kind));
    if (depth() == 2 && at_section_ != nullptr) return Fail(Cat(at_section_->key, ": an object expected, not ", kind));
    if (depth() == 3 && in_shards_) return Fail(Cat(Where(), "an object expected, not ", kind));
    return field_ == nullptr || Value(kind);
  }

  Field* TakeField() { return std::exchange(field_, nullptr); }
  std::string Where() const {
    if (in_section_ != nullptr) return Cat(in_section_->key, ": ");
    return in_shards_ ? Cat("shards[", manifest_->shards.size(), "]: ") : std::string();
  }

  Manifest* const manifest_;
  std::array<Field, 13> top_;
  std::array<Field, 5> entry_fields_;
  Section encoder_section_{.key = "encoder"};
  Section rotation_section_{.key = "rotation", .needs_all_fields = true};
  Section partition_section_{.key = kPartitionKey, .needs_all_fields = true};
  Section* at_section_ = nullptr;  // its object comes next
  Section* in_section_ = nullptr;  // the one whose object this is
  ShardEntry entry_;
  Field* field_ = nullptr;  // the known key whose value comes next
  bool at_shards_ = false;
  bool in_shards_ = false;
  bool shards_seen_ = false;
  EncoderIdentity encoder_;
  int64_t encoder_dim_ = 0;
  int64_t query_length_ = 0;
  int64_t document_length_ = 0;
  std::string rotation_kind_;
  int64_t rotation_seed_ = 0;
  int64_t first_slot_ = 0;
  int64_t end_slot_ = 0;
  std::string format_;
  int64_t format_version_ = 0;
  int64_t dim_ = 0;
  int64_t log_sequence_ = 0;
  std::string storage_;
  std::string id_type_;
};

absl::Status Range(std::string_view key, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Invalid(key, ": ", value, " is not in ", low, " .. ", high);
}

absl::Status ManifestEvents::Finish() {
  if (!top_[0].seen || format_ != kManifestFormat) {
    // What is no manifest may be anything, and its text is nobody's business who only named the folder.
    return Invalid("format: is not \"", kManifestFormat, "\": this is no manifest");
  }
  if (!top_[1].seen || format_version_ < kManifestFormatVersion || format_version_ > kPartitionFormatVersion) {
    return Invalid("format_version: ", format_version_, "; this version reads ", kManifestFormatVersion, " and ",
                   kPartitionFormatVersion);
  }
  for (const Field& field : top_) {
    if (field.seen && field.key == kLogSequenceKey) {
      if (absl::Status s = Range(kLogSequenceKey, log_sequence_, 0, kMaxLogSequence); !s.ok()) return s;
      manifest_->log_sequence = static_cast<uint64_t>(log_sequence_);
    }
    if (!field.seen && field.key != kLogSequenceKey) return Invalid("key \"", field.key, "\" is missing");
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
  return CheckShards();
}

absl::Status ManifestEvents::CheckPartition() {
  const bool is_partition = format_version_ == kPartitionFormatVersion;
  if (partition_section_.seen != is_partition) {
    return is_partition
               ? Invalid("key \"", kPartitionKey, "\" is missing, which format_version ", format_version_, " has")
               : Invalid("partition: format_version ", format_version_, " has none; ", kPartitionFormatVersion, " has");
  }
  if (!is_partition) return absl::OkStatus();
  if (absl::Status s = Range("partition: first_slot", first_slot_, 0, kNumSlots - 1); !s.ok()) return s;
  if (absl::Status s = Range("partition: end_slot", end_slot_, first_slot_ + 1, kNumSlots); !s.ok()) return s;
  const SlotRange slots{static_cast<int32_t>(first_slot_), static_cast<int32_t>(end_slot_)};
  if (slots.is_whole()) return Invalid("partition: 0 .. ", kNumSlots, " are all slots; a whole collection names none");
  manifest_->partition = slots;
  return absl::OkStatus();
}

absl::Status ManifestEvents::CheckEncoder() {
  if (!encoder_section_.seen) return absl::OkStatus();
  for (const Field& field : encoder_section_.fields) {
    const bool is_required = field.key == "model" || field.key == "dim";
    if (is_required && !field.seen) return Invalid("encoder: key \"", field.key, "\" is missing");
  }
  if (encoder_dim_ != manifest_->dim) {
    return Invalid("encoder: dim: ", encoder_dim_, ", and the collection's dim is ", manifest_->dim);
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
    return Invalid("storage: ", Quote(storage_), " is not supported by this version (f16, bf16, f32 and i8 are)");
  }
  manifest_->storage = *storage;
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
    // The sum cannot overflow: a shard's documents are below 2^32, and a document's tokens are at most 2^16.
    if (absl::Status s = Range(where + "num_tokens", entry.num_tokens, entry.num_documents,
                               entry.num_documents * kMaxDocumentTokens);
        !s.ok()) {
      return s;
    }
    if (absl::Status s = Range(where + "num_bytes", entry.num_bytes, 1, INT64_MAX); !s.ok()) return s;
    if (!IsChecksum(entry.checksum)) {
      return Invalid(where, "checksum: ", Quote(entry.checksum), ", expected \"xxh3-128:\" and 32 hex digits");
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

}  // namespace

absl::StatusOr<Manifest> ParseManifest(std::string_view json, std::string_view origin) {
  Manifest manifest;
  ManifestEvents events(&manifest);
  absl::Status status = events.Parse(json);
  if (status.ok()) status = events.Finish();
  if (!status.ok()) return Prefix(Cat(origin, ": "), status);
  return manifest;
}

}  // namespace maxsim::collection
