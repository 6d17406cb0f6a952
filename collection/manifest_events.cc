#include "collection/manifest_events.h"

namespace maxsim::collection {

ManifestEvents::ManifestEvents(Manifest* manifest) : JsonEvents(kMaxDepth, Text::kSecret), manifest_(manifest) {
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
           {.key = kLogSequenceKey, .integer = &log_sequence_},
           {.key = kNumCentroidsKey, .integer = &num_centroids_}}};
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
  codes_section_.fields = {{.key = kCodePlanesKey, .integer = &code_planes_},
                           {.key = kCodeFactorsKey, .boolean = &code_factors_},
                           {.key = kCodeRotationKey, .text = &code_rotation_kind_},
                           {.key = kCodeRotationSeedKey, .integer = &code_rotation_seed_}};
}

bool ManifestEvents::OnKey(std::string& key) {
  field_ = nullptr;
  if (depth() == 1) {
    at_shards_ = key == "shards";
    if (at_shards_ && std::exchange(shards_seen_, true)) return Fail("key \"shards\" appears twice");
    at_declarations_ = key == kFieldsKey;
    if (at_declarations_ && std::exchange(declarations_seen_, true)) return Fail("key \"fields\" appears twice");
    at_section_ = nullptr;
    for (Section* const section : {&encoder_section_, &rotation_section_, &partition_section_, &codes_section_}) {
      if (key != section->key) continue;
      if (std::exchange(section->seen, true)) return Fail(Cat("key \"", key, "\" appears twice"));
      at_section_ = section;
    }
    return Select(top_, key, "");
  }
  if (depth() == 2 && in_section_ != nullptr) return Select(in_section_->fields, key, Where());
  if (depth() == 3 && in_shards_) {
    at_code_files_ = key == kCodesKey;
    if (at_code_files_ && std::exchange(code_files_seen_, true)) {
      return Fail(Cat(Where(), "key \"", key, "\" appears twice"));
    }
    at_field_file_ = key == kFieldsKey;
    if (at_field_file_ && std::exchange(field_file_seen_, true)) {
      return Fail(Cat(Where(), "key \"", key, "\" appears twice"));
    }
    return Select(entry_fields_, key, Where());
  }
  if (depth() == 3 && in_declarations_) return Select(declaration_fields_, key, Where());
  if (depth() == 4 && in_field_file_) return Select(file_fields_, key, Where());
  if (depth() == 5 && in_code_files_) return Select(file_fields_, key, Where());
  return true;
}

bool ManifestEvents::Value(std::string_view kind) {
  if (depth() == 0) return Fail("not a JSON object");
  if (depth() == 1 && std::exchange(at_shards_, false)) return Fail(Cat("shards: an array expected, not ", kind));
  if (depth() == 1 && std::exchange(at_declarations_, false)) {
    return Fail(Cat(kFieldsKey, ": an array expected, not ", kind));
  }
  if (depth() == 1 && at_section_ != nullptr) return Fail(Cat(at_section_->key, ": an object expected, not ", kind));
  if (depth() == 2 && (in_shards_ || in_declarations_)) return Fail(Cat(Where(), "an object expected, not ", kind));
  if (depth() == 3 && std::exchange(at_code_files_, false)) {
    return Fail(Cat(Where(), kCodesKey, ": an array expected, not ", kind));
  }
  if (depth() == 3 && std::exchange(at_field_file_, false)) {
    return Fail(Cat(Where(), kFieldsKey, ": an object expected, not ", kind));
  }
  if (depth() == 4 && in_code_files_) return Fail(Cat(Where(), "an object expected, not ", kind));
  if (Key* field = TakeField()) {
    return Fail(Cat(Where(), field->key, ": ",
                    field->integer != nullptr ? "an integer"
                    : field->text != nullptr  ? "a string"
                                              : "true or false",
                    " expected, not ", kind));
  }
  return true;
}

bool ManifestEvents::OnBool(bool value) {
  if (field_ == nullptr || field_->boolean == nullptr) return Value("a boolean");
  *TakeField()->boolean = value;
  return true;
}

bool ManifestEvents::OnInteger(int64_t value) {
  if (field_ == nullptr || field_->integer == nullptr) return Value("an integer");
  *TakeField()->integer = value;
  return true;
}

bool ManifestEvents::OnString(std::string& value) {
  if (field_ == nullptr || field_->text == nullptr) return Value("a string");
  *TakeField()->text = std::move(value);
  return true;
}

bool ManifestEvents::OnStartObject() {
  if (depth() == 1) return true;
  if (depth() == 2 && at_section_ != nullptr) {
    in_section_ = std::exchange(at_section_, nullptr);
    return true;
  }
  if (depth() == 3 && in_shards_) {
    entry_ = ShardEntry();
    at_code_files_ = false;
    code_files_seen_ = false;
    at_field_file_ = false;
    field_file_seen_ = false;
    entry_fields_ = {{{.key = "file", .text = &entry_.file},
                      {.key = "num_documents", .integer = &entry_.num_documents},
                      {.key = "num_tokens", .integer = &entry_.num_tokens},
                      {.key = "num_bytes", .integer = &entry_.num_bytes},
                      {.key = "checksum", .text = &entry_.checksum}}};
    return true;
  }
  if (depth() == 3 && in_declarations_) {
    declared_ = Field();
    declaration_fields_ = {{{.key = kFieldNameKey, .text = &declared_.name},
                            {.key = kFieldKindKey, .text = &declared_kind_},
                            {.key = kFieldPathKey, .text = &declared_.path}}};
    return true;
  }
  const bool is_field_file = depth() == 4 && in_shards_ && std::exchange(at_field_file_, false);
  if (is_field_file || (depth() == 5 && in_code_files_)) {
    in_field_file_ = is_field_file;
    file_ = FileEntry();
    file_fields_ = {{{.key = "file", .text = &file_.file},
                     {.key = "num_bytes", .integer = &file_.num_bytes},
                     {.key = "checksum", .text = &file_.checksum}}};
    return true;
  }
  return RefuseContainer("an object");
}

bool ManifestEvents::OnEndObject() {
  if (depth() == 1 && in_section_ != nullptr) {
    if (in_section_->needs_all_fields && !RequireAll(in_section_->fields, Where())) return false;
    in_section_ = nullptr;
  }
  if (depth() == 4 && in_code_files_) {
    if (!RequireAll(file_fields_, Where())) return false;
    entry_.code_files.push_back(std::move(file_));
    return true;
  }
  if (depth() == 3 && in_field_file_) {
    if (!RequireAll(file_fields_, Where())) return false;
    in_field_file_ = false;
    entry_.field_file = std::move(file_);
    return true;
  }
  if (depth() == 2 && in_declarations_) return AddField();
  if (depth() != 2 || !in_shards_) return true;
  if (!RequireAll(entry_fields_, Where())) return false;
  manifest_->shards.push_back(std::move(entry_));
  return true;
}

bool ManifestEvents::AddField() {
  if (!RequireAll(declaration_fields_, Where())) return false;
  const std::optional<FieldKind> kind = FieldKindFromName(declared_kind_);
  if (!kind.has_value()) return Fail(Cat(Where(), "kind: ", Quote(declared_kind_), " is not one of this version"));
  if (manifest_->fields.size() == kMaxFields) return Fail(Cat("fields: more than ", kMaxFields, ", the limit"));
  declared_.kind = *kind;
  manifest_->fields.push_back(std::move(declared_));
  return true;
}

bool ManifestEvents::OnStartArray() {
  if (depth() == 2 && std::exchange(at_shards_, false)) {
    in_shards_ = true;
    return true;
  }
  if (depth() == 2 && std::exchange(at_declarations_, false)) {
    in_declarations_ = true;
    return true;
  }
  if (depth() == 4 && in_shards_ && std::exchange(at_code_files_, false)) {
    in_code_files_ = true;
    return true;
  }
  return RefuseContainer("an array");
}

bool ManifestEvents::OnEndArray() {
  if (depth() == 1) in_shards_ = in_declarations_ = false;
  if (depth() == 3) in_code_files_ = false;
  return true;
}

bool ManifestEvents::RefuseContainer(std::string_view kind) {
  if (depth() == 1) return Fail("not a JSON object");
  if (depth() == 2 && at_shards_) return Fail(Cat("shards: an array expected, not ", kind));
  if (depth() == 2 && at_declarations_) return Fail(Cat(kFieldsKey, ": an array expected, not ", kind));
  if (depth() == 2 && at_section_ != nullptr) return Fail(Cat(at_section_->key, ": an object expected, not ", kind));
  if (depth() == 3 && (in_shards_ || in_declarations_)) return Fail(Cat(Where(), "an object expected, not ", kind));
  if (depth() == 4 && in_shards_ && at_code_files_) {
    return Fail(Cat(Where(), kCodesKey, ": an array expected, not ", kind));
  }
  if (depth() == 4 && in_shards_ && at_field_file_) {
    return Fail(Cat(Where(), kFieldsKey, ": an object expected, not ", kind));
  }
  if (depth() == 5 && in_code_files_) return Fail(Cat(Where(), "an object expected, not ", kind));
  return field_ == nullptr || Value(kind);
}

std::string ManifestEvents::Where() const {
  if (in_section_ != nullptr) return Cat(in_section_->key, ": ");
  if (in_declarations_) return Cat(kFieldsKey, "[", manifest_->fields.size(), "]: ");
  if (!in_shards_) return "";
  const std::string shard = Cat("shards[", manifest_->shards.size(), "]: ");
  if (in_field_file_) return Cat(shard, kFieldsKey, ": ");
  return in_code_files_ ? Cat(shard, kCodesKey, "[", entry_.code_files.size(), "]: ") : shard;
}

}  // namespace maxsim::collection
