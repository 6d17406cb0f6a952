// Reads the values of a manifest's keys from the events of a JSON parser. manifest_parser.cc checks the values
// afterwards.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/json_events.h"
#include "base/text.h"
#include "collection/encoder_identity.h"
#include "collection/manifest.h"
#include "collection/manifest_parser.h"

namespace maxsim::collection {

// Receives the parser's events. Nesting level 1 is the manifest's object, level 2 a section's object, level 3 an
// element of "shards" or "fields", level 4 the object "fields" of a shard, level 5 an element of "codes" of a shard.
// Everything else is ignored.
class ManifestEvents : public JsonEvents {
 public:
  explicit ManifestEvents(Manifest* manifest);

  // Checks the values that were read. Call it after a successful parse.
  absl::Status Finish();

 private:
  static constexpr int kMaxDepth = 8;  // 5 are used; the rest is room for keys of later versions

  // A known key of an object: where its value is stored, and whether it was found.
  struct Key {
    std::string_view key;
    int64_t* integer = nullptr;
    std::string* text = nullptr;
    bool* boolean = nullptr;
    bool seen = false;
  };

  // A key of the manifest whose value is an object with known keys.
  struct Section {
    std::string_view key;
    bool needs_all_fields = false;
    std::vector<Key> fields = {};
    bool seen = false;
  };

  absl::Status CheckFormatVersion() const;
  absl::Status CheckStorage();
  absl::Status CheckCentroids();
  absl::Status CheckShards() const;
  absl::Status CheckEncoder();
  absl::Status CheckPartition();
  absl::Status CheckCodes();
  absl::Status CheckDeclaredFields() const;
  absl::Status CheckFieldFile(const ShardEntry& entry, std::string_view where) const;
  absl::Status CheckCodeFiles(const ShardEntry& entry, std::string_view where) const;

  bool OnKey(std::string& key) override;
  bool Value(std::string_view kind) override;
  bool OnBool(bool value) override;
  bool OnInteger(int64_t value) override;
  bool OnString(std::string& value) override;
  bool OnStartObject() override;
  bool OnEndObject() override;
  bool OnStartArray() override;
  bool OnEndArray() override;

  // Adds a complete object of "fields" to the manifest.
  bool AddField();

  // Fails if an array or object is in the wrong place, or is the value of a known key that needs a scalar. Unknown keys
  // may have any value.
  bool RefuseContainer(std::string_view kind);

  template <typename Fields>
  bool Select(Fields& fields, std::string_view key, std::string_view where) {
    for (Key& field : fields) {
      if (field.key != key) continue;
      if (std::exchange(field.seen, true)) return Fail(Cat(where, "key \"", key, "\" appears twice"));
      field_ = &field;
    }
    return true;
  }

  // Fails if a key is missing.
  template <typename Fields>
  bool RequireAll(const Fields& fields, std::string_view where) {
    for (const Key& field : fields) {
      if (!field.seen) return Fail(Cat(where, "key \"", field.key, "\" is missing"));
    }
    return true;
  }

  Key* TakeField() { return std::exchange(field_, nullptr); }
  std::string Where() const;

  Manifest* const manifest_;
  std::array<Key, 14> top_;
  std::array<Key, 5> entry_fields_;
  std::array<Key, 3> file_fields_;  // of a code file, or of the field file
  std::array<Key, 3> declaration_fields_;
  Section encoder_section_{.key = "encoder"};
  Section rotation_section_{.key = "rotation", .needs_all_fields = true};
  Section partition_section_{.key = kPartitionKey, .needs_all_fields = true};
  Section codes_section_{.key = kCodesKey, .needs_all_fields = true};
  Section* at_section_ = nullptr;  // its object comes next
  Section* in_section_ = nullptr;  // the one whose object this is
  ShardEntry entry_;
  FileEntry file_;
  Key* field_ = nullptr;  // the known key whose value comes next
  bool at_shards_ = false;
  bool in_shards_ = false;
  bool shards_seen_ = false;
  bool at_code_files_ = false;
  bool in_code_files_ = false;
  bool code_files_seen_ = false;  // in this entry
  bool at_field_file_ = false;
  bool in_field_file_ = false;
  bool field_file_seen_ = false;  // in this entry
  bool at_declarations_ = false;  // the array "fields" comes next
  bool in_declarations_ = false;
  bool declarations_seen_ = false;
  Field declared_;
  std::string declared_kind_;
  EncoderIdentity encoder_;
  int64_t encoder_dim_ = 0;
  int64_t query_length_ = 0;
  int64_t document_length_ = 0;
  std::string rotation_kind_;
  int64_t rotation_seed_ = 0;
  int64_t first_slot_ = 0;
  int64_t end_slot_ = 0;
  int64_t code_planes_ = 0;
  bool code_factors_ = false;
  std::string code_rotation_kind_;
  int64_t code_rotation_seed_ = 0;
  std::string format_;
  int64_t format_version_ = 0;
  int64_t dim_ = 0;
  int64_t log_sequence_ = 0;
  int64_t num_centroids_ = 0;
  std::string storage_;
  std::string id_type_;
};

}  // namespace maxsim::collection
