// Tests how manifests describe fields.
#include <functional>
#include <string>

#include "collection/manifest.h"
#include "collection/manifest_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

constexpr char kFieldsHash[] = "xxh3-128:0123456789abcdef0123456789abcdef";

Manifest WithFields() {
  Manifest manifest{.name = "wiki",
                    .generation = 3,
                    .dim = 128,
                    .has_payloads = true,
                    .num_documents = 30,
                    .num_tokens = 600,
                    .created_by = "a test",
                    .created_at = "2026-01-02T03:04:05Z",
                    .shards = {},
                    .fields = *ParseFields("lang:keyword=meta.lang,year:integer")};
  manifest.shards.push_back({"a.safetensors", 10, 100, 5000, kFieldsHash});
  manifest.shards.push_back({"b.safetensors", 20, 500, 9000, kFieldsHash});
  for (ShardEntry& entry : manifest.shards) entry.field_file = FileEntry{"fields-" + entry.file, 700, kFieldsHash};
  return manifest;
}

TEST(FieldsManifestTest, FieldsReturnUnderAFormatVersionThatEarlierReadersRefuse) {
  const Manifest manifest = WithFields();
  const std::string text = FormatManifest(manifest);
  EXPECT_THAT(text, HasSubstr("\"format_version\": 4"));
  const auto parsed = ParseManifest(text, "x");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->fields, manifest.fields);
  ASSERT_TRUE(parsed->shards[1].field_file.has_value());
  EXPECT_EQ(parsed->shards[1].field_file->file, "fields-b.safetensors");
  EXPECT_EQ(FieldFileBytes(parsed->shards[1]), 700);
  EXPECT_EQ(FormatManifest(*parsed), text);
}

TEST(FieldsManifestTest, PartitionsAndCollectionsWithCodesMayHaveFields) {
  Manifest manifest = WithFields();
  manifest.partition = SlotRange{0, 1000};
  manifest.codes = CodesFormat{1, true, 17};
  for (ShardEntry& entry : manifest.shards) entry.code_files.push_back({"codes-" + entry.file, 7000, kFieldsHash});
  const std::string text = FormatManifest(manifest);
  EXPECT_THAT(text, HasSubstr("\"format_version\": 4"));
  const auto parsed = ParseManifest(text, "x");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->codes, manifest.codes);
  EXPECT_EQ(parsed->partition, manifest.partition);
  EXPECT_EQ(FormatManifest(*parsed), text);
}

TEST(FieldsManifestTest, WhatIsWrongIsNamed) {
  struct Case {
    std::function<void(nlohmann::ordered_json&)> change;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](auto& json) { json["format_version"] = 1; }, "fields: format_version 1 has no fields; format_version 4 has"},
      {[](auto& json) { json["format_version"] = 5; }, "format_version: 5; this version reads 1 to 4"},
      {[](auto& json) { json.erase("fields"); }, "key \"fields\" is missing, which format_version 4 requires"},
      {[](auto& json) { json["fields"] = nlohmann::ordered_json::array(); },
       "fields: is empty; format_version 4 must have at least one"},
      {[](auto& json) { json["fields"] = 1; }, "fields: an array expected, not an integer"},
      {[](auto& json) {
         json["fields"] = {{"name", "x"}};
       },
       "fields: an array expected, not an object"},
      {[](auto& json) { json["fields"][0] = 7; }, "fields[0]: an object expected, not an integer"},
      {[](auto& json) { json["fields"][1] = nlohmann::ordered_json::array(); }, "fields[1]: an object expected"},
      {[](auto& json) { json["fields"][1].erase("path"); }, "fields[1]: key \"path\" is missing"},
      {[](auto& json) { json["fields"][1]["kind"] = "text"; }, "fields[1]: kind: \"text\" is not one of this version"},
      {[](auto& json) { json["fields"][1]["kind"] = 1; }, "fields[1]: kind: a string expected, not an integer"},
      {[](auto& json) { json["fields"][1]["name"] = "lang"; }, "fields: field \"lang\" appears twice"},
      {[](auto& json) { json["fields"][1]["path"] = ""; }, "fields: field \"year\": path: 0 bytes"},
      {[](auto& json) { json["has_payloads"] = false; }, "fields: has_payloads is false"},
      {[](auto& json) { json["shards"][1].erase("fields"); }, "shards[1].fields: is missing"},
      {[](auto& json) { json["shards"][1]["fields"] = 1; }, "shards[1]: fields: an object expected, not an integer"},
      {[](auto& json) { json["shards"][1]["fields"] = nlohmann::ordered_json::array(); },
       "shards[1]: fields: an object expected, not an array"},
      {[](auto& json) { json["shards"][1]["fields"].erase("checksum"); },
       "shards[1]: fields: key \"checksum\" is missing"},
      {[](auto& json) { json["shards"][1]["fields"]["file"] = "../x"; }, "shards[1].fields.file: \"../x\""},
      {[](auto& json) { json["shards"][1]["fields"]["file"] = "a.safetensors"; },
       "shards[1].fields: file: \"a.safetensors\" appears twice"},
      {[](auto& json) { json["shards"][1]["fields"]["num_bytes"] = 0; }, "shards[1].fields.num_bytes: 0 is not in"},
      {[](auto& json) { json["shards"][1]["fields"]["checksum"] = "x"; }, "shards[1].fields.checksum: \"x\""},
  };
  for (const Case& one : cases) {
    auto json = nlohmann::ordered_json::parse(FormatManifest(WithFields()));
    one.change(json);
    const auto parsed = ParseManifest(json.dump(), "x");
    ASSERT_FALSE(parsed.ok()) << one.message;
    EXPECT_TRUE(absl::IsInvalidArgument(parsed.status()));
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(one.message));
  }
}

TEST(FieldsManifestTest, AShardOfACollectionWithoutFieldsHasNoFile) {
  Manifest manifest = WithFields();
  manifest.fields.clear();
  EXPECT_THAT(std::string(ParseManifest(FormatManifest(manifest), "x").status().message()),
              HasSubstr("shards[0].fields: the collection has none"));
}

TEST(FieldsManifestTest, AKeyMayNotAppearTwice) {
  const std::string text = FormatManifest(WithFields());
  const auto refused = [&](const std::string& from, const std::string& to, const std::string& message) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    const auto parsed = ParseManifest(changed, "x");
    ASSERT_FALSE(parsed.ok()) << message;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(message));
  };
  refused("\"fields\": [", "\"fields\": [], \"fields\": [", "key \"fields\" appears twice");
  refused("\"kind\": \"integer\"", "\"kind\": \"integer\", \"kind\": \"integer\"",
          "fields[1]: key \"kind\" appears twice");
  refused("\"fields\": {", "\"fields\": {\"file\": \"a\", \"num_bytes\": 1, \"checksum\": \"b\"}, \"fields\": {",
          "shards[0]: key \"fields\" appears twice");
}

}  // namespace
}  // namespace maxsim::collection
