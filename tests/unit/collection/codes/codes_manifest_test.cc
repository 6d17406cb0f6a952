// Tests how manifests describe codes.
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

constexpr char kHash[] = "xxh3-128:0123456789abcdef0123456789abcdef";

Manifest WithCodes(int planes) {
  Manifest manifest{.name = "wiki",
                    .generation = 3,
                    .dim = 128,
                    .num_documents = 30,
                    .num_tokens = 600,
                    .created_by = "a test",
                    .created_at = "2026-01-02T03:04:05Z",
                    .shards = {},
                    .codes = CodesFormat{planes, true, 17}};
  manifest.shards.push_back({"a.safetensors", 10, 100, 5000, kHash});
  manifest.shards.push_back({"b.safetensors", 20, 500, 9000, kHash});
  for (ShardEntry& entry : manifest.shards) {
    for (size_t file = 0; file < NumCodeFiles(planes); ++file) {
      entry.code_files.push_back({entry.file + "." + std::to_string(file), 7000, kHash});
    }
  }
  return manifest;
}

TEST(CodesManifestTest, CodesReturnUnderAFormatVersionThatEarlierReadersRefuse) {
  for (const int planes : {1, 2, 4}) {
    const Manifest manifest = WithCodes(planes);
    const std::string text = FormatManifest(manifest);
    EXPECT_THAT(text, HasSubstr("\"format_version\": 3"));
    const auto parsed = ParseManifest(text, "x");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->codes, manifest.codes);
    ASSERT_EQ(parsed->shards[1].code_files.size(), NumCodeFiles(planes));
    EXPECT_EQ(parsed->shards[1].code_files[0].file, "b.safetensors.0");
    EXPECT_EQ(FormatManifest(*parsed), text);
    EXPECT_EQ(CodeFileBytes(parsed->shards[0], 1), 7000);
    EXPECT_EQ(CodeFileBytes(parsed->shards[0], planes), 7000 * static_cast<int64_t>(NumCodeFiles(planes)));
  }
}

TEST(CodesManifestTest, APartitionMayHaveCodes) {
  Manifest manifest = WithCodes(2);
  manifest.partition = SlotRange{0, 1000};
  const std::string text = FormatManifest(manifest);
  EXPECT_THAT(text, HasSubstr("\"format_version\": 3"));
  const auto parsed = ParseManifest(text, "x");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->partition, manifest.partition);
  EXPECT_EQ(FormatManifest(*parsed), text);
}

TEST(CodesManifestTest, WithoutCodesNothingIsSaidOfThem) {
  Manifest manifest = WithCodes(1);
  manifest.codes.reset();
  for (ShardEntry& entry : manifest.shards) entry.code_files.clear();
  const std::string text = FormatManifest(manifest);
  EXPECT_THAT(text, ::testing::Not(HasSubstr("codes")));
  EXPECT_THAT(text, HasSubstr("\"format_version\": 1"));
  EXPECT_EQ(ParseManifest(text, "x")->codes, std::nullopt);
}

TEST(CodesManifestTest, EachWrongValueIsNamed) {
  using Change = std::function<void(nlohmann::json&)>;
  const std::pair<Change, std::string> cases[] = {
      {[](auto& json) { json["format_version"] = 1; }, "codes: format_version 1 has no codes; format_version 3 has"},
      {[](auto& json) { json["format_version"] = 5; }, "format_version: 5; this version reads 1 to 4"},
      {[](auto& json) { json.erase("codes"); }, "key \"codes\" is missing, which format_version 3 requires"},
      {[](auto& json) { json["codes"] = 4; }, "codes: an object expected, not an integer"},
      {[](auto& json) {
         json["codes"] = {1, 2};
       },
       "codes: an object expected, not an array"},
      {[](auto& json) { json["codes"]["planes"] = 3; }, "codes: planes: 3, expected 1, 2 or 4"},
      {[](auto& json) { json["codes"]["planes"] = int64_t{1} << 32; }, "codes: planes: 4294967296"},
      {[](auto& json) { json["codes"]["planes"] = "4"; }, "codes: planes: an integer expected, not a string"},
      {[](auto& json) { json["codes"].erase("factors"); }, "codes: key \"factors\" is missing"},
      {[](auto& json) { json["codes"]["rotation"] = "givens"; }, "codes: rotation: \"givens\", expected \"hadamard\""},
      {[](auto& json) { json["codes"]["rotation_seed"] = -1; }, "codes: rotation_seed: -1 is not in 0"},
      {[](auto& json) {
         json["storage"] = "i8";
         json["rotation"] = {{"kind", "hadamard"}, {"seed", 18}};
       },
       "codes: rotation_seed: 17, but the i8 vectors are rotated with seed 18"},
      {[](auto& json) { json["shards"][1].erase("codes"); }, "shards[1].codes: 0 files, expected 3"},
      {[](auto& json) { json["shards"][1]["codes"].erase(2); }, "shards[1].codes: 2 files, expected 3"},
      {[](auto& json) { json["codes"]["planes"] = 1; }, "shards[0].codes: 3 files, expected 1"},
      {[](auto& json) { json["shards"][1]["codes"] = "x"; }, "shards[1]: codes: an array expected, not a string"},
      {[](auto& json) {
         json["shards"][1]["codes"] = {{"file", 1}};
       },
       "shards[1]: codes: an array expected, not an object"},
      {[](auto& json) { json["shards"][1]["codes"][2] = 1; },
       "shards[1]: codes[2]: an object expected, not an integer"},
      {[](auto& json) { json["shards"][1]["codes"][2] = nlohmann::json::array(); },
       "shards[1]: codes[2]: an object expected, not an array"},
      {[](auto& json) { json["shards"][1]["codes"][2].erase("checksum"); },
       "shards[1]: codes[2]: key \"checksum\" is missing"},
      {[](auto& json) { json["shards"][1]["codes"][2]["num_bytes"] = "1"; },
       "shards[1]: codes[2]: num_bytes: an integer expected, not a string"},
      {[](auto& json) { json["shards"][1]["codes"][2]["num_bytes"] = 0; }, "shards[1].codes[2].num_bytes: 0 is not in"},
      {[](auto& json) { json["shards"][1]["codes"][2]["num_bytes"] = INT64_MAX; }, "shards[1].codes[2].num_bytes: 9"},
      {[](auto& json) { json["shards"][1]["codes"][2]["checksum"] = "x"; }, "shards[1].codes[2].checksum: \"x\""},
      {[](auto& json) { json["shards"][1]["codes"][2]["file"] = "../x"; }, "shards[1].codes[2].file: \"../x\""},
      {[](auto& json) { json["shards"][1]["codes"][2]["file"] = "a.safetensors"; },
       "codes: file: \"a.safetensors\" appears twice"},
      {[](auto& json) { json["shards"][1]["codes"][2]["file"] = "a.safetensors.2"; }, "appears twice"},
  };
  for (const auto& [change, expected] : cases) {
    nlohmann::json json = nlohmann::json::parse(FormatManifest(WithCodes(4)));
    change(json);
    const absl::Status status = ParseManifest(json.dump(), "m.json").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << expected << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(expected));
  }
}

TEST(CodesManifestTest, KeysThatRepeatAreRefusedAndUnknownOnesSkipped) {
  const std::string text = FormatManifest(WithCodes(1));
  const auto with = [&](std::string_view at, std::string_view more) {
    std::string changed = text;
    const size_t found = changed.rfind(at);
    EXPECT_NE(found, std::string::npos);
    changed.insert(found, more);
    return ParseManifest(changed, "m.json").status();
  };
  EXPECT_THAT(std::string(with("\"codes\": [", "\"codes\": [], ").message()), HasSubstr("key \"codes\" appears twice"));
  EXPECT_TRUE(with("\"codes\": [", "\"later\": [{\"file\": [1]}], ").ok());
  EXPECT_TRUE(with("\"checksum\"", "\"later\": {\"codes\": [{\"file\": 3}]}, ").ok());
  EXPECT_THAT(std::string(with("\"checksum\"", "\"num_bytes\": 2, ").message()),
              HasSubstr("codes[0]: key \"num_bytes\" appears twice"));
}

}  // namespace
}  // namespace maxsim::collection
