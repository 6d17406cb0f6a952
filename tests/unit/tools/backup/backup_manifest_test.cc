// Tests the manifest of a backup: it is read back as written, and an invalid one is refused.
#include "backup/backup_manifest.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace maxsim::backup {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

BackupManifest TwoParts() {
  BackupManifest manifest{.id = "0123456789abcdef",
                          .collection = "notes",
                          .created_at = "2026-01-31T12:00:00Z",
                          .created_by = "a test",
                          .stream = collection::LogStream{"maxsim-notes", 1'700'000'000'123'456'789},
                          .parts = {}};
  const std::string hash(64, 'a');
  manifest.parts.push_back({.server = "a:1",
                            .slots = {0, 2048},
                            .sequence = 30,
                            .num_documents = 5,
                            .files = {{"log/db/CURRENT", 16, hash}, {"collection.json", 100, hash}}});
  manifest.parts.push_back({.server = "b:1",
                            .slots = {2048, 4096},
                            .sequence = 20,
                            .num_documents = 7,
                            .files = {{"collection.json", 90, hash}}});
  return manifest;
}

absl::Status ParseChanged(const std::function<void(Json&)>& change) {
  Json json = Json::parse(FormatManifest(TwoParts()));
  change(json);
  return ParseManifest(json.dump()).status();
}

TEST(BackupManifestTest, WhatIsWrittenIsReadAgain) {
  const BackupManifest written = TwoParts();
  const auto read = ParseManifest(FormatManifest(written));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->id, written.id);
  EXPECT_EQ(read->collection, written.collection);
  EXPECT_EQ(read->created_at, written.created_at);
  EXPECT_EQ(read->created_by, written.created_by);
  EXPECT_EQ(read->stream, written.stream);
  EXPECT_EQ(read->parts, written.parts);
  EXPECT_EQ(read->position(), 20);
  EXPECT_EQ(read->complete_at(), 30);
  EXPECT_EQ(read->num_bytes(), 206);
  EXPECT_TRUE(ParseChanged([](Json& json) { json.erase("stream"); }).ok());
}

TEST(BackupManifestTest, ErrorsNameTheField) {
  const std::vector<std::pair<std::string, std::function<void(Json&)>>> cases = {
      {"format", [](Json& json) { json["format"] = "other"; }},
      {"id", [](Json& json) { json["id"] = "0123456789ABCDEF"; }},
      {"id", [](Json& json) { json["id"] = "../../etc/passwd"; }},
      {"collection", [](Json& json) { json["collection"] = "a/b"; }},
      {"created_at", [](Json& json) { json.erase("created_at"); }},
      {"created_by", [](Json& json) { json["created_by"] = std::string(257, 'x'); }},
      {"stream.name", [](Json& json) { json["stream"].erase("name"); }},
      {"stream", [](Json& json) { json["stream"] = 1; }},
      {"position", [](Json& json) { json["position"] = 19; }},
      {"parts", [](Json& json) { json["parts"] = Json::array(); }},
      {"parts", [](Json& json) { json["parts"][1]["first_slot"] = 2049; }},
      {"parts[1]", [](Json& json) { json["parts"][1] = 5; }},
      {"parts[0].first_slot", [](Json& json) { json["parts"][0]["first_slot"] = 2048; }},
      {"parts[1].end_slot", [](Json& json) { json["parts"][1]["end_slot"] = 4097; }},
      {"parts[1].sequence", [](Json& json) { json["parts"][1]["sequence"] = -1; }},
      {"parts[1].documents", [](Json& json) { json["parts"][1]["documents"] = 1.5; }},
      {"parts[1].files", [](Json& json) { json["parts"][1]["files"] = Json::array(); }},
      {"parts[0].files", [](Json& json) { json["parts"][0]["files"].erase(1); }},
      {"parts[0].files", [](Json& json) { json["parts"][0]["files"][0]["path"] = "collection.json"; }},
      {"parts[0].files[0].path", [](Json& json) { json["parts"][0]["files"][0]["path"] = "a/../../b"; }},
      {"parts[0].files[0].path", [](Json& json) { json["parts"][0]["files"][0]["path"] = "/etc/passwd"; }},
      {"parts[0].files[1].bytes", [](Json& json) { json["parts"][0]["files"][1]["bytes"] = "100"; }},
      {"parts[0].files[1].sha256", [](Json& json) { json["parts"][0]["files"][1]["sha256"] = std::string(63, 'a'); }},
  };
  for (const auto& [field, change] : cases) {
    const absl::Status status = ParseChanged(change);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << field << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(Cat("manifest.json: ", field, " "))) << field;
  }
}

TEST(BackupManifestTest, TextThatIsNoManifestIsRefused) {
  const std::string text = FormatManifest(TwoParts());
  for (const std::string& wrong :
       {std::string(), std::string("[]"), std::string("null"), text.substr(0, text.size() / 2),
        "{\"id\":\"1\"," + text.substr(1), std::string(100'000, '[')}) {
    EXPECT_EQ(ParseManifest(wrong).status().code(), absl::StatusCode::kDataLoss) << wrong.substr(0, 30);
  }
  const absl::Status later = ParseChanged([](Json& json) { json["version"] = 2; });
  EXPECT_EQ(later.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(BackupManifestTest, PartsMayOverlapButLeaveNoGap) {
  std::vector<BackupPart> parts = TwoParts().parts;
  std::swap(parts[0], parts[1]);
  EXPECT_TRUE(CoveredSlots(parts)->is_whole());
  parts[0].slots.first = 1000;
  EXPECT_TRUE(CoveredSlots(parts)->is_whole());
  parts[1].slots.end = 999;
  EXPECT_THAT(std::string(CoveredSlots(parts).status().message()), HasSubstr("slots 999 .. 999"));
  EXPECT_FALSE(CoveredSlots({}).ok());
}

}  // namespace
}  // namespace maxsim::backup
