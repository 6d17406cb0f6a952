#include "collection/manifest.h"

#include <string>

#include "base/text.h"
#include "collection/manifest_parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kHash[] = "xxh3-128:0123456789abcdef0123456789abcdef";

Manifest Example() {
  Manifest manifest{.name = "wiki.v2_en-1",
                    .generation = 3,
                    .dim = 128,
                    .storage = ScalarType::kBF16,
                    .id_type = IdType::kInt64,
                    .has_payloads = true,
                    .num_documents = 30,
                    .num_tokens = 600,
                    .created_by = "a test",
                    .created_at = "2026-01-02T03:04:05Z",
                    .shards = {}};
  manifest.shards.push_back({"a.safetensors", 10, 100, 5000, kHash});
  manifest.shards.push_back({"b.safetensors", 20, 500, 9000, kHash});
  return manifest;
}

// Parses the example with one change.
absl::Status ParseChanged(const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json json = nlohmann::json::parse(FormatManifest(Example()));
  change(json);
  return ParseManifest(json.dump(), "m.json").status();
}

TEST(ManifestTest, TheEncoderReturns) {
  Manifest manifest = Example();
  manifest.encoder = EncoderIdentity{.model = "m",
                                     .fingerprint = "f",
                                     .dim = 128,
                                     .query_prefix = "[Q] ",
                                     .document_prefix = "[D] ",
                                     .query_length = 32,
                                     .document_length = 300,
                                     .query_expansion = true};
  const auto parsed = ParseManifest(FormatManifest(manifest), "x");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->encoder, manifest.encoder);
  EXPECT_EQ(ParseManifest(FormatManifest(Example()), "x")->encoder, std::nullopt);
  EXPECT_TRUE(ParseChanged([](auto& json) {
                json["encoder"] = {{"model", "m"}, {"dim", 128}, {"later", {{"dim", {1}}}}};
              }).ok())
      << "keys of later versions";
}

TEST(ManifestTest, AnEncoderThatDoesNotFitIsRefused) {
  const auto error = [](const nlohmann::json& encoder) {
    return std::string(ParseChanged([&](auto& json) { json["encoder"] = encoder; }).message());
  };
  EXPECT_THAT(error(3), HasSubstr("encoder: an object expected"));
  EXPECT_THAT(error(nlohmann::json::array()), HasSubstr("encoder: an object expected"));
  EXPECT_THAT(error({{"dim", 128}}), HasSubstr("encoder: key \"model\" is missing"));
  EXPECT_THAT(error({{"model", "m"}}), HasSubstr("encoder: key \"dim\" is missing"));
  EXPECT_THAT(error({{"model", "m"}, {"dim", 64}}), HasSubstr("encoder: dim: 64, but the collection's dim is 128"));
  EXPECT_THAT(error({{"model", 1}, {"dim", 128}}), HasSubstr("encoder: model: a string expected"));
  EXPECT_THAT(error({{"model", "m"}, {"dim", 128}, {"query_length", 70000}}), HasSubstr("query_length: 70000"));
  EXPECT_THAT(error({{"model", std::string(2000, 'm')}, {"dim", 128}}), HasSubstr("2000 bytes, the limit is 1024"));
}

nlohmann::json Rotation(int64_t seed) { return {{"kind", "hadamard"}, {"seed", seed}}; }

nlohmann::json Slots(int64_t first, int64_t end) { return {{"first_slot", first}, {"end_slot", end}}; }

TEST(ManifestTest, ThePartitionReturnsUnderAFormatVersionThatEarlierReadersRefuse) {
  for (const SlotRange slots : {SlotRange{0, 1}, SlotRange{0, 4095}, SlotRange{1, 4096}, SlotRange{1365, 2730}}) {
    Manifest manifest = Example();
    manifest.partition = slots;
    const std::string text = FormatManifest(manifest);
    EXPECT_EQ(nlohmann::json::parse(text)["format_version"], 2);
    const auto parsed = ParseManifest(text, "x");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->partition, slots);
    EXPECT_EQ(parsed->slots(), slots);
    EXPECT_EQ(FormatManifest(*parsed), text);
  }
  const std::string whole = FormatManifest(Example());
  EXPECT_EQ(nlohmann::json::parse(whole)["format_version"], 1);
  EXPECT_EQ(ParseManifest(whole, "x")->partition, std::nullopt);
  EXPECT_TRUE(ParseManifest(whole, "x")->slots().is_whole());
}

TEST(ManifestTest, APartitionWithoutAShardIsOne) {
  Manifest manifest = Example();
  manifest.partition = SlotRange{7, 8};
  manifest.num_documents = 0;
  manifest.num_tokens = 0;
  manifest.shards.clear();
  const auto parsed = ParseManifest(FormatManifest(manifest), "x");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->partition, (SlotRange{7, 8}));
}

TEST(ManifestTest, APartitionOfOtherSlotsIsRefused) {
  const auto error = [](const nlohmann::json& partition) {
    return std::string(ParseChanged([&](auto& json) {
                         json["format_version"] = 2;
                         json["partition"] = partition;
                       }).message());
  };
  EXPECT_EQ(error(Slots(3, 4)), "");
  EXPECT_THAT(error(Slots(-1, 4)), HasSubstr("partition: first_slot: -1 is not in 0 .. 4095"));
  EXPECT_THAT(error(Slots(4096, 4097)), HasSubstr("partition: first_slot: 4096 is not in 0 .. 4095"));
  EXPECT_THAT(error(Slots(7, 7)), HasSubstr("partition: end_slot: 7 is not in 8 .. 4096"));
  EXPECT_THAT(error(Slots(7, 4097)), HasSubstr("partition: end_slot: 4097 is not in 8 .. 4096"));
  EXPECT_THAT(error(Slots(4, int64_t{1} << 32)), HasSubstr("partition: end_slot: 4294967296 is not in 5 .. 4096"));
  EXPECT_THAT(error(Slots(0, 4096)), HasSubstr("partition: 0 .. 4096 are all slots; a whole collection names none"));
  EXPECT_THAT(error({{"first_slot", 3}}), HasSubstr("partition: key \"end_slot\" is missing"));
  EXPECT_THAT(error({{"end_slot", 3}}), HasSubstr("partition: key \"first_slot\" is missing"));
  EXPECT_THAT(error({{"first_slot", "0"}, {"end_slot", 3}}), HasSubstr("partition: first_slot: an integer expected"));
  EXPECT_THAT(error("0/3"), HasSubstr("partition: an object expected, not a string"));
  EXPECT_THAT(error(nlohmann::json::array()), HasSubstr("partition: an object expected, not an array"));
}

TEST(ManifestTest, TheSequenceOfTheLogReturnsAndIsLeftOutWhereNothingIsSaidOfIt) {
  Manifest manifest = Example();
  EXPECT_THAT(FormatManifest(manifest), Not(HasSubstr("log_sequence")));
  EXPECT_EQ(ParseManifest(FormatManifest(manifest), "x")->log_sequence, std::nullopt);
  for (const uint64_t sequence : {uint64_t{0}, uint64_t{17}, static_cast<uint64_t>(kMaxLogSequence)}) {
    manifest.log_sequence = sequence;
    const auto parsed = ParseManifest(FormatManifest(manifest), "x");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->log_sequence, sequence);
  }
  const auto error = [](const nlohmann::json& value) {
    return std::string(ParseChanged([&](auto& json) { json["log_sequence"] = value; }).message());
  };
  EXPECT_THAT(error(-1), HasSubstr("log_sequence: -1 is not in 0 .. 9007199254740991"));
  EXPECT_THAT(error(kMaxLogSequence + 1), HasSubstr("log_sequence: 9007199254740992 is not in"));
  EXPECT_THAT(error("7"), HasSubstr("log_sequence: an integer expected"));
}

TEST(ManifestTest, ACollectionMayHaveNoShard) {
  Manifest manifest = Example();
  manifest.shards.clear();
  manifest.num_documents = 0;
  manifest.num_tokens = 0;
  const auto parsed = ParseManifest(FormatManifest(manifest), "x");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->shards.empty());
}

TEST(ManifestTest, TheRotationOfI8Returns) {
  Manifest manifest = Example();
  manifest.storage = ScalarType::kI8;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{17}, static_cast<uint64_t>(kMaxRotationSeed)}) {
    manifest.rotation_seed = seed;
    const auto parsed = ParseManifest(FormatManifest(manifest), "x");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->storage, ScalarType::kI8);
    EXPECT_EQ(parsed->rotation_seed, seed);
  }
  EXPECT_TRUE(ParseChanged([](auto& json) {
                json["storage"] = "i8";
                json["rotation"] = Rotation(1);
                json["rotation"]["later"] = {{"a", {1, {{"b", 2}}}}};
              }).ok())
      << "keys of later versions";
  EXPECT_EQ(FormatManifest(Example()).find("rotation"), std::string::npos);
}

TEST(ManifestTest, WhatIsFormattedParsesToTheSame) {
  const Manifest example = Example();
  const auto parsed = ParseManifest(FormatManifest(example), "x");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->name, example.name);
  EXPECT_EQ(parsed->generation, 3);
  EXPECT_EQ(parsed->dim, 128);
  EXPECT_EQ(parsed->storage, ScalarType::kBF16);
  EXPECT_EQ(parsed->id_type, IdType::kInt64);
  EXPECT_TRUE(parsed->has_payloads);
  EXPECT_EQ(parsed->num_documents, 30);
  EXPECT_EQ(parsed->num_tokens, 600);
  EXPECT_EQ(parsed->created_by, "a test");
  EXPECT_EQ(parsed->created_at, "2026-01-02T03:04:05Z");
  ASSERT_EQ(parsed->shards.size(), 2);
  EXPECT_EQ(parsed->shards[1].file, "b.safetensors");
  EXPECT_EQ(parsed->shards[1].num_documents, 20);
  EXPECT_EQ(parsed->shards[1].num_tokens, 500);
  EXPECT_EQ(parsed->shards[1].num_bytes, 9000);
  EXPECT_EQ(parsed->shards[1].checksum, kHash);
}

TEST(ManifestTest, KeysOfLaterVersionsAreSkippedWhateverTheyHold) {
  EXPECT_TRUE(ParseChanged([](auto& json) {
                json["later"] = {{"a", {1, 2, {{"b", nullptr}}}}};
                json["more"] = {1, "x", {{"shards", 1}}};
                json["shards"][0]["scales"] = {{"file", "x"}, {"list", {1, 2}}};
              }).ok());
}

TEST(ManifestTest, EachWrongValueIsNamed) {
  struct Case {
    const char* message;
    std::function<void(nlohmann::json&)> change;
  };
  const Case cases[] = {
      {"format: is not \"maxsim-collection\"", [](auto& json) { json["format"] = "zip"; }},
      {"format: is not \"maxsim-collection\"", [](auto& json) { json.erase("format"); }},
      {"format_version: 0; this version reads 1 to 4", [](auto& json) { json["format_version"] = 0; }},
      {"format_version: 5", [](auto& json) { json["format_version"] = 5; }},
      {"\"partition\" is missing, which format_version 2 requires", [](auto& json) { json["format_version"] = 2; }},
      {"partition: format_version 1 has no partition; format_version 2 has",
       [](auto& json) { json["partition"] = Slots(0, 7); }},
      {"\"dim\" is missing", [](auto& json) { json.erase("dim"); }},
      {"\"shards\" is missing", [](auto& json) { json.erase("shards"); }},
      {"name: \"\"", [](auto& json) { json["name"] = ""; }},
      {"name: \"a/b\"", [](auto& json) { json["name"] = "a/b"; }},
      {"must be 1 to 128", [](auto& json) { json["name"] = std::string(129, 'x'); }},
      {"is only dots", [](auto& json) { json["name"] = ".."; }},
      {"generation: 0", [](auto& json) { json["generation"] = 0; }},
      {"dim: 7 is not in 8 .. 4096", [](auto& json) { json["dim"] = 7; }},
      {"dim: 4097", [](auto& json) { json["dim"] = 4097; }},
      {"dim: 4294967304", [](auto& json) { json["dim"] = 4294967304; }},
      {"dim: an integer expected, not a string", [](auto& json) { json["dim"] = "8"; }},
      {"dim: an integer expected, not a number", [](auto& json) { json["dim"] = 8.5; }},
      {"dim: an integer expected, not null", [](auto& json) { json["dim"] = nullptr; }},
      {"dim: an integer expected, not an array", [](auto& json) { json["dim"] = {8}; }},
      {"dim: an integer expected, not an object",
       [](auto& json) {
         json["dim"] = {{"a", 1}};
       }},
      {"name: a string expected", [](auto& json) { json["name"] = 1; }},
      {"has_payloads: true or false expected", [](auto& json) { json["has_payloads"] = 1; }},
      {"storage: \"i8_token\" is not supported by this version (f16, bf16, f32, i8, residual1, "
       "residual2, residual4 and residual8 are)",
       [](auto& json) { json["storage"] = "i8_token"; }},
      {"\"rotation\" is missing, which storage i8 needs", [](auto& json) { json["storage"] = "i8"; }},
      {"rotation: storage bf16 has none", [](auto& json) { json["rotation"] = Rotation(1); }},
      {"rotation: an object expected, not an integer", [](auto& json) { json["rotation"] = 1; }},
      {"rotation: an object expected, not an array",
       [](auto& json) {
         json["rotation"] = {1, 2};
       }},
      {"rotation: an object expected, not null", [](auto& json) { json["rotation"] = nullptr; }},
      {"rotation: key \"seed\" is missing",
       [](auto& json) {
         json["rotation"] = {{"kind", "hadamard"}};
       }},
      {"rotation: key \"kind\" is missing",
       [](auto& json) {
         json["rotation"] = {{"seed", 1}};
       }},
      {"rotation: seed: an integer expected, not a string",
       [](auto& json) {
         json["rotation"] = {{"kind", "hadamard"}, {"seed", "1"}};
       }},
      {"rotation: kind: \"givens\", expected \"hadamard\"",
       [](auto& json) {
         json["storage"] = "i8";
         json["rotation"] = {{"kind", "givens"}, {"seed", 1}};
       }},
      {"rotation: seed: -1 is not in 0 .. 9007199254740991",
       [](auto& json) {
         json["storage"] = "i8";
         json["rotation"] = Rotation(-1);
       }},
      {"rotation: seed: 9007199254740992 is not in",
       [](auto& json) {
         json["storage"] = "i8";
         json["rotation"] = Rotation(int64_t{1} << 53);
       }},
      {"storage: \"F16\"", [](auto& json) { json["storage"] = "F16"; }},
      {"id_type: \"int\"", [](auto& json) { json["id_type"] = "int"; }},
      {"num_documents: 31, but the shards' sum is 30", [](auto& json) { json["num_documents"] = 31; }},
      {"num_tokens: 1, but the shards' sum is 600", [](auto& json) { json["num_tokens"] = 1; }},
      {"shards: an array expected", [](auto& json) { json["shards"] = 1; }},
      {"shards: an array expected", [](auto& json) { json["shards"] = nlohmann::json::object(); }},
      {"shards[0]: an object expected", [](auto& json) { json["shards"][0] = 1; }},
      {"shards[1]: an object expected", [](auto& json) { json["shards"][1] = nlohmann::json::array(); }},
      {"shards[0]: key \"num_bytes\" is missing", [](auto& json) { json["shards"][0].erase("num_bytes"); }},
      {"shards[0]: num_bytes: an integer", [](auto& json) { json["shards"][0]["num_bytes"] = 9223372036854775808u; }},
      {"shards[0].num_bytes: 0", [](auto& json) { json["shards"][0]["num_bytes"] = 0; }},
      {"shards[0].file: \"../x\"", [](auto& json) { json["shards"][0]["file"] = "../x"; }},
      {"shards[0].file: \"/etc/passwd\"", [](auto& json) { json["shards"][0]["file"] = "/etc/passwd"; }},
      {"shards[0].file: \"..\"", [](auto& json) { json["shards"][0]["file"] = ".."; }},
      {"shards[0].file: \"\"", [](auto& json) { json["shards"][0]["file"] = ""; }},
      {"shards[0].file: \"a?b\"", [](auto& json) { json["shards"][0]["file"] = std::string("a\0b", 3); }},
      // The name contains a control character that starts an escape sequence. Errors print names, so they must replace
      // it.
      {"shards[0].file: \"a?31mb\"", [](auto& json) { json["shards"][0]["file"] = "a\u009b31mb"; }},
      {"shards[0].file: \"a?\"", [](auto& json) { json["shards"][0]["file"] = "a\x7f"; }},
      {"shards[1].file: \"a.safetensors\" appears twice",
       [](auto& json) { json["shards"][1]["file"] = "a.safetensors"; }},
      {"shards[1].num_documents: 0", [](auto& json) { json["shards"][1]["num_documents"] = 0; }},
      {"shards[1].num_documents: 4294967296", [](auto& json) { json["shards"][1]["num_documents"] = 4294967296; }},
      {"shards[1].num_tokens: 19 is not in 20 .. 1310720", [](auto& json) { json["shards"][1]["num_tokens"] = 19; }},
      {"shards[0].checksum: \"xxh3-128:0\"", [](auto& json) { json["shards"][0]["checksum"] = "xxh3-128:0"; }},
      {"shards[0].checksum",
       [](auto& json) { json["shards"][0]["checksum"] = "md5:0123456789abcdef0123456789abcdef"; }},
  };
  for (const Case& item : cases) {
    SCOPED_TRACE(item.message);
    const absl::Status status = ParseChanged(item.change);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), StartsWith("m.json: "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(item.message));
  }
}

TEST(ManifestTest, SumsThatPass63BitsAreRefused) {
  const absl::Status status = ParseChanged([](auto& json) {
    const nlohmann::json entry = {{"num_documents", 4294967295},
                                  {"num_tokens", 4294967295 * int64_t{65536}},
                                  {"num_bytes", 1},
                                  {"checksum", kHash}};
    json["shards"] = nlohmann::json::array();
    for (int idx = 0; idx < 33000; ++idx) {
      json["shards"].push_back(entry);
      json["shards"].back()["file"] = Cat("f", idx);
    }
  });
  EXPECT_THAT(std::string(status.message()), HasSubstr("the sum over the shards passes 2^63"));
}

TEST(ManifestTest, MalformedAndHostileTextIsRefused) {
  const std::string good = FormatManifest(Example());
  for (size_t length = 0; length + 2 < good.size(); ++length) {
    EXPECT_FALSE(ParseManifest(good.substr(0, length), "x").ok()) << length;
  }
  for (const std::string& text :
       {std::string("null"), std::string("[]"), std::string("1"), std::string("\"x\""), std::string(1'000'000, '['),
        Cat("{\"x\":", std::string(1'000'000, '{')), std::string("{}\0", 3),
        std::string("{\"name\":\"a\",\"name\":\"b\"}"), std::string("{\"shards\":[],\"shards\":[]}")}) {
    EXPECT_FALSE(ParseManifest(text, "x").ok()) << text.substr(0, 40);
  }
}

TEST(ManifestTest, FlippedBytesNeverCrash) {
  const std::string good = FormatManifest(Example());
  for (size_t at = 0; at < good.size(); ++at) {
    // Sanitized builds flip one bit of each byte.
    for (int bit = test::kSanitized ? static_cast<int>(at % 8) : 0; bit < 8; bit += test::kSanitized ? 8 : 1) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1 << bit);
      const auto parsed = ParseManifest(bad, "x");
      if (parsed.ok()) {
        EXPECT_EQ(parsed->shards.size(), 2);
      }
    }
  }
}

TEST(ManifestTest, ErrorsTellNothingOfAFileThatIsNoManifest) {
  for (const char* secret : {"zebra", "\x01\x02\xff", R"({"zebra)", R"({"zebra":zebra})", R"({"format":"zebra"})",
                             R"("zebra")", R"({"format":"maxsim-collection","zebra":)"}) {
    const std::string message(ParseManifest(secret, "x").status().message());
    EXPECT_EQ(message.find("zebra"), std::string::npos) << message;
    EXPECT_EQ(message.find("'z"), std::string::npos) << message;
    EXPECT_EQ(message.find("U+"), std::string::npos) << message;
  }
}

TEST(ManifestTest, PublishReplacesAndReadFinds) {
  TemporaryFolder folder;
  EXPECT_EQ(ReadManifest(folder.path()).status().code(), absl::StatusCode::kNotFound);
  Manifest manifest = Example();
  ASSERT_TRUE(PublishManifest(manifest, folder.path()).ok());
  EXPECT_EQ(ReadManifest(folder.path())->generation, 3);
  manifest.generation = 4;
  ASSERT_TRUE(PublishManifest(manifest, folder.path()).ok());
  EXPECT_EQ(ReadManifest(folder.path())->generation, 4);
  EXPECT_EQ(FilesIn(folder.path()), std::vector<std::string>{"collection.json"});
  // PublishManifest refuses a manifest that ReadManifest would refuse.
  manifest.num_tokens = 1;
  EXPECT_FALSE(PublishManifest(manifest, folder.path()).ok());
  EXPECT_EQ(ReadManifest(folder.path())->num_tokens, 600);
}

}  // namespace
}  // namespace maxsim::collection
