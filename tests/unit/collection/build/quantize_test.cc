// Tests i8 collections: how they are built, how they are made from others, and what that does to rankings.
#include "collection/build/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "collection/inspection/inspect.h"
#include "collection/inspection/verifier.h"
#include "collection/shard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/quantize.h"
#include "nlohmann/json.hpp"
#include "tests/support/collection/run_shard.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Returns `count` documents of 1 to 40 tokens with payloads.
SmallCollection MadeUp(int count, int32_t dim = 16) {
  SmallCollection collection;
  collection.dim = dim;
  collection.lengths.clear();
  collection.ids.clear();
  collection.payloads.clear();
  for (int document = 0; document < count; ++document) {
    collection.lengths.push_back(1 + document * 7 % 40);
    collection.ids.push_back("doc-" + std::to_string(document));
    collection.payloads.push_back(document % 3 == 0 ? "" : "{\"n\":" + std::to_string(document) + "}");
  }
  return collection;
}

class QuantizeTest : public ::testing::Test {
 protected:
  QuantizeOptions Options(const std::string& source = "source", const std::string& target = "target") {
    QuantizeOptions options;
    options.source = folder_.Path(source);
    options.target = folder_.Path(target);
    return options;
  }
  Manifest BuildSource(const SmallCollection& collection, BuildOptions options = {}) {
    options.folder = folder_.Path("source");
    options.name = "documents";
    const auto manifest = BuildSmall(collection, options);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return *manifest;
  }
  std::string Error(const QuantizeOptions& options) {
    const absl::Status status = QuantizeCollection(options).status();
    EXPECT_FALSE(status.ok());
    return std::string(status.message());
  }
  bool Published(const std::string& target = "target") {
    return std::filesystem::exists(folder_.Path(target + "/collection.json"));
  }

  // Expects that every document of `folder` is what QuantizeDocument makes of the collection's values.
  void ExpectQuantized(const std::string& folder, const Manifest& manifest, const SmallCollection& collection,
                       uint64_t seed) {
    std::vector<float> values = collection.Values();
    size_t document = 0;
    int64_t row = 0;
    for (const ShardEntry& entry : manifest.shards) {
      const auto shard = Shard::Open(folder, manifest, entry, Access::kMapped, true);
      ASSERT_TRUE(shard.ok()) << shard.status();
      const DocumentsView& view = (*shard)->documents();
      ASSERT_EQ(view.type, ScalarType::kI8);
      EXPECT_EQ(view.rotation_seed, seed);
      EXPECT_TRUE(ValidateDocuments(view).ok());
      for (int64_t idx = 0; idx < view.num_documents; ++idx, ++document) {
        const auto count = static_cast<size_t>(collection.lengths[document]) * static_cast<size_t>(collection.dim);
        std::vector<int8_t> expected(count);
        const float scale = QuantizeDocument(
            seed, collection.dim, absl::MakeSpan(values).subspan(static_cast<size_t>(row * collection.dim), count),
            expected.data());
        ASSERT_EQ(view.scales[idx], scale) << document;
        ASSERT_EQ(
            std::memcmp(static_cast<const int8_t*>(view.tokens) + view.offsets[idx] * view.dim, expected.data(), count),
            0)
            << document;
        EXPECT_EQ((*shard)->string_id(idx), collection.ids[document]);
        EXPECT_EQ((*shard)->payload(idx), collection.payloads.empty() ? "" : collection.payloads[document]);
        row += collection.lengths[document];
      }
    }
    EXPECT_EQ(document, collection.lengths.size());
  }

  TemporaryFolder folder_;
};

// With 9 columns, integers and scales lie behind an odd number of bytes, so that they are copied.
TEST_F(QuantizeTest, ABuildStoresWhatTheKernelsContractSays) {
  for (const int32_t dim : {8, 9, 96}) {
    const SmallCollection collection = MadeUp(50, dim);
    const std::string folder = folder_.Path(Cat("i8-", dim));
    const auto manifest =
        BuildSmall(collection, {.folder = folder, .name = "x", .storage = ScalarType::kI8, .rotation_seed = 12345});
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_EQ(manifest->rotation_seed, 12345u);
    ExpectQuantized(folder, *ReadManifest(folder), collection, 12345);
    EXPECT_THAT(VerifyCollection(folder)->problems, IsEmpty());
  }
}

TEST_F(QuantizeTest, IdsPayloadsNameAndGenerationStay) {
  const SmallCollection collection = MadeUp(60);
  for (int generation = 1; generation < 3; ++generation) BuildSource(collection, {.max_shard_bytes = 20'000});
  const Manifest source = BuildSource(collection, {.max_shard_bytes = 20'000});
  ASSERT_GT(source.shards.size(), 1u);
  QuantizeOptions options = Options();
  options.rotation_seed = 3;
  options.max_shard_bytes = 12'000;
  const auto manifest = QuantizeCollection(options);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->name, "documents");
  EXPECT_EQ(manifest->generation, 3);
  EXPECT_EQ(manifest->storage, ScalarType::kI8);
  EXPECT_EQ(manifest->num_tokens, source.num_tokens);
  EXPECT_GT(manifest->shards.size(), 1u);
  ExpectQuantized(options.target, *ReadManifest(options.target), collection, 3);
  EXPECT_THAT(VerifyCollection(options.target)->problems, IsEmpty());
}

TEST_F(QuantizeTest, EverySourceTypeWorks) {
  for (const ScalarType type : {ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32}) {
    SmallCollection collection = MadeUp(10);
    collection.payloads.clear();
    BuildSource(collection, {.storage = type});
    const auto manifest = QuantizeCollection(Options("source", std::string(Name(type))));
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    ExpectQuantized(folder_.Path(Name(type)), *manifest, collection, 0);
  }
}

TEST_F(QuantizeTest, TheSameBytesWhateverTheThreads) {
  // A document that is larger than a thread's share of a batch lies between small ones.
  SmallCollection collection = MadeUp(300, 64);
  collection.lengths[150] = 20'000;
  BuildSource(collection);
  std::vector<std::string> checksums;
  for (const int num_threads : {1, 2, 7}) {
    QuantizeOptions options = Options("source", Cat("threads-", num_threads));
    options.num_threads = num_threads;
    const auto manifest = QuantizeCollection(options);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    ASSERT_EQ(manifest->shards.size(), 1u);
    checksums.push_back(manifest->shards[0].checksum);
  }
  EXPECT_THAT(checksums, ElementsAre(checksums[0], checksums[0], checksums[0]));
}

TEST_F(QuantizeTest, ANewerGenerationFollowsAnOlderOne) {
  const SmallCollection collection = MadeUp(5);
  BuildSource(collection);
  ASSERT_TRUE(QuantizeCollection(Options()).ok());
  EXPECT_THAT(Error(Options()), HasSubstr("holds generation 1 already; generation 1 cannot follow it"));
  BuildSource(collection);
  BuildSource(collection);
  const auto manifest = QuantizeCollection(Options());
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->generation, 3);
  EXPECT_EQ(ReadManifest(folder_.Path("target"))->generation, 3);
}

TEST_F(QuantizeTest, AnotherShapeFollowsAnOlderGenerationOnlyWhenAskedFor) {
  BuildSource(MadeUp(5));
  ASSERT_TRUE(QuantizeCollection(Options()).ok());
  BuildSource(MadeUp(5, 24), {.allow_other_shape = true});
  const std::vector<std::string> arguments = {"quantize", folder_.Path("source"), folder_.Path("target"), "--quiet"};
  const shard_tool::Outcome refused = shard_tool::RunShard(arguments);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("has dimension 16, and this input has 24"),
                                 HasSubstr("choose another folder, or give --allow-other-shape")));
  EXPECT_EQ(ReadManifest(folder_.Path("target"))->dim, 16);
  std::vector<std::string> asked = arguments;
  asked.emplace_back("--allow-other-shape");
  const shard_tool::Outcome permitted = shard_tool::RunShard(asked);
  EXPECT_EQ(permitted.code, 0) << permitted.err;
  EXPECT_EQ(ReadManifest(folder_.Path("target"))->dim, 24);
}

TEST_F(QuantizeTest, WhatCannotBeQuantisedIsRefusedAndNothingPublished) {
  EXPECT_EQ(QuantizeCollection(Options()).status().code(), absl::StatusCode::kNotFound);
  const Manifest source = BuildSource(MadeUp(30), {.max_shard_bytes = 10'000});
  EXPECT_THAT(Error(Options("source", "source")), HasSubstr("the target is the source"));
  QuantizeOptions bad_name = Options();
  bad_name.name = "a b";
  EXPECT_THAT(Error(bad_name), HasSubstr("\"a b\""));
  EXPECT_FALSE(std::filesystem::exists(bad_name.target));

  ASSERT_GT(source.shards.size(), 1u);
  const std::string path = folder_.Path(Cat("source/", source.shards[1].file));
  const std::string whole = ReadBytes(path);
  std::string damaged = whole;
  damaged[4096 + 10] = static_cast<char>(damaged[4096 + 10] ^ 1);
  WriteBytes(path, damaged);
  EXPECT_THAT(Error(Options()), AllOf(HasSubstr(source.shards[1].file), HasSubstr("checksum")));
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("target"))) << "nothing is left behind";
  WriteBytes(path, whole);

  ASSERT_TRUE(QuantizeCollection(Options()).ok());
  EXPECT_THAT(Error(Options("target", "again")), HasSubstr("is i8 already"));
}

TEST_F(QuantizeTest, AnInterruptedOneLeavesTheOldGeneration) {
  BuildSource(MadeUp(30));
  ASSERT_TRUE(QuantizeCollection(Options()).ok());
  const auto before = FilesIn(folder_.Path("target"));
  BuildSource(MadeUp(30));
  bool reading = false;
  const auto status =
      QuantizeCollection(Options(), [&](const BuildProgress& progress) {
        reading = reading || progress.stage == BuildProgress::Stage::kReading;
        return progress.stage == BuildProgress::Stage::kPublishing ? absl::CancelledError("stop") : absl::OkStatus();
      }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(reading);
  EXPECT_EQ(FilesIn(folder_.Path("target")), before);
}

// These values are within the limit, and the rotation gathers them in one column.
TEST_F(QuantizeTest, ValuesThatPassTheLimitInTheRotationAreRefused) {
  SmallCollection collection = MadeUp(3);
  std::vector<float> values(static_cast<size_t>(collection.num_tokens() * collection.dim), 1);
  std::vector<float> row(static_cast<size_t>(collection.dim));
  row[5] = 1;
  Unrotate(0, absl::MakeSpan(row));
  float largest = 0;
  for (const float value : row) largest = std::max(largest, std::abs(value));
  ASSERT_LT(largest, 0.95F);
  for (size_t column = 0; column < row.size(); ++column) values[column] = row[column] / largest * 0.999e12F;
  WriteBytes(folder_.Path("tokens.npy"), NpyBytes("<f4", Cat("(", collection.num_tokens(), ", 16)"), AsBytes(values)));
  WriteBytes(folder_.Path("lengths.npy"), NpyBytes("<i4", "(3,)", AsBytes(collection.lengths)));
  const shard_tool::Outcome build =
      shard_tool::RunShard({"build", "--tokens", folder_.Path("tokens.npy"), "--lengths", folder_.Path("lengths.npy"),
                            "--output", folder_.Path("out"), "--storage", "i8"});
  EXPECT_EQ(build.code, 1);
  EXPECT_THAT(build.err,
              AllOf(HasSubstr("document 0, id 0: "), HasSubstr(" after the rotation is beyond the limit of 1e+12")));
}

TEST_F(QuantizeTest, InspectNamesTheRotation) {
  BuildSource(MadeUp(5));
  QuantizeOptions options = Options();
  options.rotation_seed = 77;
  ASSERT_TRUE(QuantizeCollection(options).ok());
  EXPECT_THAT(FormatTable(*Inspect(options.target)),
              HasSubstr("storage       i8 (one scale per document, hadamard rotation of seed 77)"));
  EXPECT_EQ(nlohmann::json::parse(FormatJson(*Inspect(options.target)))["rotation"]["seed"], 77);
}

TEST_F(QuantizeTest, ABuildKeepsI8ForTheNextGeneration) {
  SmallCollection collection = MadeUp(3);
  WriteBytes(folder_.Path("tokens.npy"),
             NpyBytes("<f4", Cat("(", collection.num_tokens(), ", 16)"), AsBytes(collection.Values())));
  WriteBytes(folder_.Path("lengths.npy"), NpyBytes("<i4", "(3,)", AsBytes(collection.lengths)));
  std::vector<std::string> arguments = {"build",
                                        "--tokens",
                                        folder_.Path("tokens.npy"),
                                        "--lengths",
                                        folder_.Path("lengths.npy"),
                                        "--output",
                                        folder_.Path("out"),
                                        "--storage",
                                        "i8",
                                        "--seed",
                                        "4",
                                        "--threads",
                                        "2"};
  shard_tool::Outcome build = shard_tool::RunShard(arguments);
  ASSERT_EQ(build.code, 0) << build.err;
  EXPECT_EQ(ReadManifest(folder_.Path("out"))->rotation_seed, 4u);
  arguments.resize(7);
  build = shard_tool::RunShard(arguments);
  ASSERT_EQ(build.code, 0) << build.err;
  EXPECT_THAT(build.out, HasSubstr("generation 2 of \"out\": 3 documents, 24 tokens x 16 i8"));
  std::vector<std::string> too_large = arguments;
  too_large.insert(too_large.end(), {"--seed", "9007199254740992"});
  EXPECT_EQ(shard_tool::RunShard(too_large).code, 2);
  arguments.insert(arguments.end(), {"--storage", "f16", "--seed", "4"});
  build = shard_tool::RunShard(arguments);
  EXPECT_EQ(build.code, 2);
  EXPECT_THAT(build.err, HasSubstr("--seed 4: only i8 and codes are rotated, and the storage is f16"));
  EXPECT_EQ(ReadManifest(folder_.Path("out"))->generation, 2);
}

// Runs the program, and its comparison of storages.
class QuantizeCliTest : public QuantizeTest {
 protected:
  std::vector<std::string> Arguments(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"quantize", folder_.Path("source"), folder_.Path("target")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  // Builds `data` (tokens.npy, lengths.npy and `ids`) as f16, quantises it, and returns the comparison over all of its
  // queries.
  nlohmann::json QualityOf(const std::string& data, const std::string& ids) {
    const shard_tool::Outcome build = shard_tool::RunShard(
        {"build", "--quiet", "--tokens", JoinPath(data, "tokens.npy"), "--lengths", JoinPath(data, "lengths.npy"),
         "--ids", JoinPath(data, ids), "--output", folder_.Path("source")});
    EXPECT_EQ(build.code, 0) << build.err;
    const shard_tool::Outcome quantize =
        shard_tool::RunShard(Arguments({"--json", "--sample", "0", "--queries", JoinPath(data, "query_tokens.npy"),
                                        "--query-lengths", JoinPath(data, "query_lengths.npy"), "--queries-jsonl",
                                        JoinPath(data, "queries.jsonl"), "--qrels", JoinPath(data, "qrels.tsv")}));
    EXPECT_EQ(quantize.code, 0) << quantize.err;
    EXPECT_EQ(shard_tool::RunShard({"verify", folder_.Path("target")}).code, 0);
    return quantize.code == 0 ? nlohmann::json::parse(quantize.out) : nlohmann::json();
  }
};

// Checks what the documentation promises of i8.
void ExpectGood(const nlohmann::json& quality) {
  SCOPED_TRACE(quality.dump(2));
  EXPECT_GE(quality["spearman"].get<double>(), 0.9999);
  EXPECT_LT(quality["spearman"].get<double>(), 1.0) << "something is lost";
  EXPECT_EQ(quality["overlap_depth"], 100);
  EXPECT_GE(quality["overlap"].get<double>(), 0.995);
  EXPECT_LE(std::abs(quality["ndcg"]["change"].get<double>()), 0.002);
}

TEST_F(QuantizeCliTest, TheBundledCollectionKeepsItsRankings) {
  const nlohmann::json json = QualityOf("demo", "passages.jsonl");
  ASSERT_TRUE(json.contains("quality"));
  EXPECT_EQ(json["num_documents"], 150);
  EXPECT_EQ(json["source"]["storage"], "f16");
  EXPECT_EQ(json["target"]["storage"], "i8");
  EXPECT_EQ(json["quality"]["queries"], 15);
  EXPECT_EQ(json["quality"]["documents"], 150);
  EXPECT_EQ(json["quality"]["ndcg"]["queries"], 15);
  EXPECT_NEAR(json["quality"]["ndcg"]["before"].get<double>(), 0.93, 0.0001) << "as demo/README.md has it";
  ExpectGood(json["quality"]);
}

TEST_F(QuantizeCliTest, TheCranfieldCollectionKeepsItsRankings) {
  if (test::kSanitized) GTEST_SKIP() << "not with a sanitizer: computes for minutes";
  const std::string data = CranfieldFolder();
  if (data.empty()) GTEST_SKIP() << "needs Cranfield";
  const nlohmann::json json = QualityOf(data, "docs.jsonl");
  ASSERT_TRUE(json.contains("quality"));
  EXPECT_EQ(json["quality"]["queries"], 225);
  EXPECT_EQ(json["quality"]["documents"], 1398);
  EXPECT_NEAR(json["quality"]["ndcg"]["before"].get<double>(), 0.5218, 0.0001);
  ExpectGood(json["quality"]);
  const auto source_bytes = json["source"]["num_bytes"].get<double>();
  EXPECT_LT(json["target"]["num_bytes"].get<double>(), 0.55 * source_bytes);
}

TEST_F(QuantizeCliTest, WithoutQueriesDocumentsAreTheQueries) {
  BuildSource(MadeUp(120, 32), {.max_shard_bytes = 50'000});
  const shard_tool::Outcome text =
      shard_tool::RunShard(Arguments({"--sample", "5", "--seed", "8", "--name", "smaller"}));
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("generation 1 of \"smaller\": 120 documents"), HasSubstr(" x 32 i8"),
                    HasSubstr("5 queries made of documents over 120 documents, f16 to i8:\n"),
                    HasSubstr("  Spearman         0.99"), HasSubstr("  top-100 overlap  "), Not(HasSubstr("nDCG"))));
}

TEST_F(QuantizeCliTest, JudgementsThatJudgeNothingAreNamed) {
  BuildSource(MadeUp(20));
  const std::string queries = folder_.Path("queries.npy");
  WriteBytes(queries, NpyBytes("<f4", "(1, 3, 16)", AsBytes(std::vector<float>(48, 0.5))));
  WriteBytes(folder_.Path("queries.jsonl"), "{\"id\":\"q1\"}\n");
  WriteBytes(folder_.Path("qrels.tsv"), "another\tdoc-1\t1\n");
  const shard_tool::Outcome outcome = shard_tool::RunShard(Arguments(
      {"--queries", queries, "--queries-jsonl", folder_.Path("queries.jsonl"), "--qrels", folder_.Path("qrels.tsv")}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("qrels.tsv judges no document relevant to a query that was compared: no nDCG"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("nDCG")));
}

TEST_F(QuantizeCliTest, QuietAndWithoutComparison) {
  BuildSource(MadeUp(20));
  shard_tool::Outcome outcome = shard_tool::RunShard(Arguments({"--no-comparison", "--quiet"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out + outcome.err, "");
  std::filesystem::remove_all(folder_.Path("target"));
  outcome = shard_tool::RunShard(Arguments({"--no-comparison", "--json"}));
  EXPECT_EQ(outcome.code, 0);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["rotation"]["kind"], "hadamard");
  EXPECT_FALSE(json.contains("quality"));
}

TEST_F(QuantizeCliTest, WrongArgumentsAreSaidBeforeAnythingIsWritten) {
  BuildSource(MadeUp(20));
  const auto error = [&](std::vector<std::string> more, int code = 1) {
    const shard_tool::Outcome outcome = shard_tool::RunShard(Arguments(std::move(more)));
    EXPECT_EQ(outcome.code, code) << outcome.out << outcome.err;
    EXPECT_FALSE(Published());
    return outcome.err;
  };
  const std::string queries = folder_.Path("queries.npy");
  WriteBytes(queries, NpyBytes("<f4", "(2, 3, 16)", AsBytes(std::vector<float>(96, 0.5))));
  WriteBytes(folder_.Path("narrow.npy"), NpyBytes("<f4", "(2, 3, 8)", AsBytes(std::vector<float>(48, 0.5))));
  WriteBytes(folder_.Path("queries.jsonl"), "{\"id\":\"q1\"}\n");
  WriteBytes(folder_.Path("qrels.tsv"), "q1\tdoc-1\t1\n");
  EXPECT_THAT(error({"--sample", "0"}, 2), HasSubstr("--sample 0 means all queries of --queries"));
  EXPECT_THAT(error({"--qrels", folder_.Path("qrels.tsv")}, 2), HasSubstr("go with --queries"));
  EXPECT_THAT(error({"--queries", queries, "--qrels", folder_.Path("qrels.tsv")}, 2), HasSubstr("go together"));
  EXPECT_THAT(error({"--name", "a b"}, 2), HasSubstr("maxsim-shard: --name: \"a b\" is not 1 to"));
  EXPECT_THAT(error({"--queries", folder_.Path("narrow.npy")}),
              HasSubstr("the dimension is 8, and the collection's 16"));
  EXPECT_THAT(error({"--queries", folder_.Path("none.npy")}), HasSubstr("none.npy"));
  EXPECT_THAT(error({"--queries", queries, "--queries-jsonl", folder_.Path("queries.jsonl"), "--qrels",
                     folder_.Path("qrels.tsv")}),
              HasSubstr("holds 1 queries, and "));
  EXPECT_EQ(shard_tool::RunShard({"quantize", folder_.Path("source")}).code, 2);
  EXPECT_EQ(shard_tool::RunShard(Arguments({"--seed", "-1"})).code, 2);
  EXPECT_EQ(shard_tool::RunShard(Arguments({"--max-shard-bytes", "4G"})).code, 2);
  const shard_tool::Outcome help = shard_tool::RunShard({"quantize", "--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* flag : {"SOURCE", "TARGET", "--name", "--seed", "--threads", "--max-shard-bytes", "--queries",
                           "--query-lengths", "--queries-jsonl", "--qrels", "--sample", "--no-comparison", "--json"}) {
    EXPECT_THAT(help.out, HasSubstr(flag));
  }
}

}  // namespace
}  // namespace maxsim::collection
