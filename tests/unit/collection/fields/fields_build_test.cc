// Tests collections with fields: which files a build writes, which operations keep the fields, and what the verifier
// checks.
#include <string>
#include <vector>

#include "collection/build/builder.h"
#include "collection/build/encode.h"
#include "collection/compact/create.h"
#include "collection/fields/shard_fields.h"
#include "collection/inspection/inspect.h"
#include "collection/inspection/verifier.h"
#include "collection/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/collection/run_shard.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::collection {
namespace {

using shard_tool::Outcome;
using shard_tool::RunShard;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class FieldsBuildTest : public ::testing::Test {
 protected:
  void SetUp() override {
    collection_.lengths = {60, 60, 60, 60};
    collection_.dim = 64;
    collection_.payloads = {R"({"meta":{"lang":"en"},"year":2019})", R"({"meta":{"lang":"de"},"year":2020})", "",
                            R"({"meta":{"lang":"en"},"tags":["a","b"]})"};
  }
  BuildOptions Options() const {
    return {.folder = folder_.path(), .name = "x", .max_shard_bytes = 20'000, .fields = fields_};
  }
  Manifest Build() const {
    const auto built = BuildSmall(collection_, Options());
    EXPECT_TRUE(built.ok()) << built.status();
    return built.ok() ? *built : Manifest();
  }
  // Returns the value that each document has in a field, in the order of the documents.
  static std::vector<FieldValue> Values(const std::string& folder, size_t field) {
    const auto manifest = ReadManifest(folder);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    std::vector<FieldValue> values;
    for (const ShardEntry& entry : manifest->shards) {
      const auto fields = ShardFields::Open(folder, *manifest, entry, /*check_checksum=*/true);
      EXPECT_TRUE(fields.ok()) << fields.status();
      if (!fields.ok()) continue;
      for (int64_t document = 0; document < entry.num_documents; ++document) {
        values.push_back((*fields)->columns()[field].value(document));
      }
    }
    return values;
  }
  static void ExpectSound(const std::string& folder) {
    const auto report = VerifyCollection(folder);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->problems, IsEmpty());
  }

  TemporaryFolder folder_;
  SmallCollection collection_;
  std::vector<Field> fields_ = *ParseFields("lang:keyword=meta.lang,tags:keywords,year:integer");
};

TEST_F(FieldsBuildTest, ABuildWritesTheValuesOfThePayloads) {
  const Manifest manifest = Build();
  ASSERT_EQ(manifest.shards.size(), 2);
  EXPECT_EQ(manifest.fields, fields_);
  EXPECT_EQ(manifest.shards[1].field_file->file, "fields-000001-00001.safetensors");
  EXPECT_THAT(Values(folder_.path(), 0),
              ElementsAre(FieldValue("en"), FieldValue("de"), FieldValue(), FieldValue("en")));
  EXPECT_THAT(Values(folder_.path(), 2),
              ElementsAre(FieldValue(int64_t{2019}), FieldValue(int64_t{2020}), FieldValue(), FieldValue()));
  ExpectSound(folder_.path());
}

TEST_F(FieldsBuildTest, AValueThatDoesNotFitEndsTheBuildAndLeavesNothing) {
  collection_.payloads[3] = R"({"year":"new"})";
  const auto built = BuildSmall(collection_, Options());
  ASSERT_TRUE(absl::IsInvalidArgument(built.status())) << built.status();
  EXPECT_EQ(built.status().message(),
            "document 1 of shard-000001-00001.safetensors, id \"4\": field \"year\": the value is \"new\"; must be an "
            "integer of "
            "64 bits");
  EXPECT_THAT(FilesIn(folder_.path()), IsEmpty());
}

TEST_F(FieldsBuildTest, FieldsNeedPayloads) {
  collection_.payloads.clear();
  const auto built = BuildSmall(collection_, Options());
  ASSERT_TRUE(absl::IsInvalidArgument(built.status()));
  EXPECT_THAT(std::string(built.status().message()), HasSubstr("fields: no document has a payload"));
}

TEST_F(FieldsBuildTest, AGenerationMayNotLoseAFieldThatRequestsNameUnlessAsked) {
  Build();
  fields_ = *ParseFields("lang:keyword=language,year:number");
  const auto built = BuildSmall(collection_, Options());
  ASSERT_TRUE(absl::IsFailedPrecondition(built.status()));
  EXPECT_THAT(std::string(built.status().message()),
              HasSubstr("has the field tags of kind keywords, but this input has none of that name"));
  fields_.push_back({"tags", FieldKind::kKeywords, "tags"});
  EXPECT_THAT(std::string(BuildSmall(collection_, Options()).status().message()),
              HasSubstr("has the field year of kind integer, but this input has one of kind number"));
  BuildOptions options = Options();
  options.allow_other_shape = true;
  EXPECT_TRUE(BuildSmall(collection_, options).ok());
  ExpectSound(folder_.path());
}

TEST_F(FieldsBuildTest, FilesOfOldGenerationsGo) {
  for (int generation = 1; generation <= 3; ++generation) Build();
  for (const std::string& name : FilesIn(folder_.path())) EXPECT_THAT(name, Not(HasSubstr("-000001-")));
  WriteBytes(folder_.Path("fields-000004-00000.safetensors"), "left by a build that was killed");
  WriteBytes(folder_.Path("fields-000004-00001.safetensors.tmp"), "likewise");
  WriteBytes(folder_.Path("fields-mine.safetensors"), "not of a generation");
  Build();
  const std::vector<std::string> files = FilesIn(folder_.path());
  EXPECT_THAT(files, ::testing::Contains("fields-mine.safetensors"));
  EXPECT_THAT(files, Not(::testing::Contains("fields-000004-00001.safetensors.tmp")));
  ExpectSound(folder_.path());
}

TEST_F(FieldsBuildTest, SplitsMergesEncodingsAndQuantisedCollectionsKeepTheFields) {
  Build();
  ASSERT_TRUE(EncodeCollection({.folder = folder_.path(), .codes = {.planes = 1}}).ok());
  ExpectSound(folder_.path());
  const std::vector<FieldValue> langs = Values(folder_.path(), 0);
  TemporaryFolder other;
  for (const char* const command : {"quantize", "split", "merge"}) {
    SCOPED_TRACE(command);
    std::vector<std::string> arguments = {command, folder_.path(), other.Path("i8"), "--quiet"};
    std::string result = other.Path("i8");
    if (std::string(command) == "split") {
      arguments = {command, folder_.path(), "--into", "2", "--output", other.Path("parts"), "--quiet"};
      result = other.Path("parts/partition-0-of-2");
    } else if (std::string(command) == "merge") {
      arguments = {command,
                   other.Path("parts/partition-0-of-2"),
                   other.Path("parts/partition-1-of-2"),
                   "--output",
                   other.Path("merged"),
                   "--quiet"};
      result = other.Path("merged");
    }
    const Outcome run = RunShard(arguments);
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(ReadManifest(result)->fields, fields_);
    ExpectSound(result);
    if (std::string(command) != "split") {
      EXPECT_EQ(Values(result, 0), langs);
    }
  }
}

TEST_F(FieldsBuildTest, PartitionsWithDifferentFieldsAreNotMerged) {
  Build();
  TemporaryFolder other;
  ASSERT_EQ(RunShard({"split", folder_.path(), "--into", "2", "--output", other.path(), "--quiet"}).code, 0);
  auto manifest = ReadManifest(other.Path("partition-0-of-2"));
  ASSERT_TRUE(manifest.ok());
  manifest->fields.clear();
  for (ShardEntry& entry : manifest->shards) entry.field_file.reset();
  ASSERT_TRUE(PublishManifest(*manifest, other.Path("partition-0-of-2")).ok());
  const Outcome run = RunShard({"merge", other.Path("partition-0-of-2"), other.Path("partition-1-of-2"), "--output",
                                other.Path("merged"), "--quiet"});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("has none, but "));
  EXPECT_THAT(run.err, HasSubstr("has lang:keyword=meta.lang,tags:keywords,year:integer"));
}

TEST_F(FieldsBuildTest, InspectShowsTheFields) {
  Build();
  const auto summary = Inspect(folder_.path());
  ASSERT_TRUE(summary.ok()) << summary.status();
  const std::string table = FormatTable(*summary);
  EXPECT_THAT(table, HasSubstr("fields        lang:keyword=meta.lang, in 3 documents\n"));
  EXPECT_THAT(table, HasSubstr("              tags:keywords, in 1 document\n"));
  const auto json = nlohmann::json::parse(FormatJson(*summary));
  EXPECT_EQ(json["field_documents"]["year"], 2);
  EXPECT_EQ(json["field_bytes"], summary->field_bytes);
  EXPECT_EQ(json["fields"][0]["path"], "meta.lang");
}

TEST_F(FieldsBuildTest, VerifyFindsValuesThatAreNotThoseOfThePayloads) {
  Manifest manifest = Build();
  // Swaps the field files of the two shards in the manifest. Both files are valid, but do not match the payloads.
  std::swap(manifest.shards[0].field_file, manifest.shards[1].field_file);
  ASSERT_TRUE(PublishManifest(manifest, folder_.path()).ok());
  const auto report = VerifyCollection(folder_.path());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_problems, 4);
  EXPECT_THAT(report->problems,
              ::testing::Contains(HasSubstr(
                  "document 0, id \"alpha\": field \"lang\": no value is stored, but the payload has \"en\"")));
  EXPECT_THAT(report->problems,
              ::testing::Contains(HasSubstr("id \"gamma-\xc3\xa9\": field \"lang\": \"en\" is stored, but the payload "
                                            "has no value")));
}

TEST_F(FieldsBuildTest, VerifyFindsDamage) {
  const Manifest manifest = Build();
  const std::string path = folder_.Path(manifest.shards[0].field_file->file);
  const std::string bytes = ReadBytes(path);
  std::string changed = bytes;
  changed.back() ^= 1;
  WriteBytes(path, changed);
  EXPECT_EQ(VerifyCollection(folder_.path())->num_problems, 2) << "the checksum, and a value";
  EXPECT_TRUE(absl::IsDataLoss(ShardFields::Open(folder_.path(), manifest, manifest.shards[0], true).status()));
  WriteBytes(path, bytes.substr(1));
  EXPECT_EQ(VerifyCollection(folder_.path())->num_problems, 1);
  EXPECT_TRUE(absl::IsDataLoss(Inspect(folder_.path()).status()));
}

TEST_F(FieldsBuildTest, TheCommandLineBuildsFields) {
  WriteBytes(folder_.Path("tokens.npy"), NpyBytes("<f4", "(4, 8)", std::string(4 * 8 * 4, '\0')));
  WriteBytes(folder_.Path("lengths.npy"), NpyBytes("|u1", "(2,)", "\x01\x03"));
  WriteBytes(folder_.Path("docs.jsonl"), "{\"id\":\"a\",\"lang\":\"en\"}\n{\"id\":\"b\",\"lang\":5}\n");
  std::vector<std::string> arguments = {"build",
                                        "--tokens",
                                        folder_.Path("tokens.npy"),
                                        "--lengths",
                                        folder_.Path("lengths.npy"),
                                        "--ids",
                                        folder_.Path("docs.jsonl"),
                                        "--output",
                                        folder_.Path("out"),
                                        "--quiet"};
  const auto with = [&](const std::string& fields) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"--fields", fields});
    return RunShard(all);
  };
  Outcome run = with("lang:keyword");
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("docs.jsonl:2: id \"b\": field \"lang\": the value is 5; must be a string"));
  run = with("lang:text");
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("--fields: \"lang:text\": kind: \"text\", expected keyword"));
  WriteBytes(folder_.Path("docs.jsonl"), "{\"id\":\"a\",\"lang\":\"en\"}\n{\"id\":\"b\"}\n");
  ASSERT_EQ(with("lang:keyword").code, 0);
  EXPECT_THAT(Values(folder_.Path("out"), 0), ElementsAre(FieldValue("en"), FieldValue()));
  // A collection gets others from its own payloads.
  ASSERT_EQ(RunShard({"build", "--input", folder_.Path("out"), "--output", folder_.Path("out"), "--fields",
                      "lang:keyword,also:keyword=lang", "--quiet"})
                .code,
            0);
  EXPECT_THAT(Values(folder_.Path("out"), 1), ElementsAre(FieldValue("en"), FieldValue()));
  ASSERT_EQ(RunShard({"build", "--input", folder_.Path("out"), "--output", folder_.Path("out"), "--fields",
                      "lang:keyword", "--allow-other-shape", "--quiet"})
                .code,
            0);
  // The next generation keeps them.
  ASSERT_EQ(RunShard(arguments).code, 0);
  EXPECT_EQ(FormatFields(ReadManifest(folder_.Path("out"))->fields), "lang:keyword");
  run = with("none");
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("--allow-other-shape"));
  arguments.push_back("--allow-other-shape");
  ASSERT_EQ(with("none").code, 0);
  EXPECT_THAT(ReadManifest(folder_.Path("out"))->fields, IsEmpty());
}

TEST_F(FieldsBuildTest, ALiveCollectionKeepsItsFields) {
  const std::string folder = folder_.Path("live");
  const auto made = CreateLiveCollection(folder, {.name = "x", .dim = 64, .fields = fields_});
  ASSERT_TRUE(made.ok()) << made.status();
  BuildOptions options = Options();
  options.folder = folder;
  const auto built = BuildSmall(collection_, options);
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->log_sequence, 0u);
  EXPECT_EQ(built->fields, fields_);
  ExpectSound(folder);
  options.fields.push_back({"more", FieldKind::kKeyword, "more"});
  options.allow_other_shape = true;
  const absl::Status refused = BuildSmall(collection_, options).status();
  ASSERT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("is a live collection with the fields lang:keyword=meta.lang,tags:keywords,year:integer, which "
                        "it keeps, but this build has "));
}

}  // namespace
}  // namespace maxsim::collection
