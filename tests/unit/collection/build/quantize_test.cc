// Tests i8 collections: builds, conversions from other collections, and the effect of quantisation on rankings.
#include "collection/build/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/text.h"
#include "collection/inspection/inspect.h"
#include "collection/inspection/verifier.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/quantize.h"
#include "nlohmann/json.hpp"
#include "tests/support/collection/run_shard.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/unit/collection/build/quantize_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// With 9 columns, the vectors have an odd number of bytes. The integers and scales after them are misaligned, and so
// the reader must copy them.
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
  // One document in the middle is larger than a thread's share of a batch.
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
  EXPECT_THAT(refused.err, AllOf(HasSubstr("has dimension 16, but this input has 24"),
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
  EXPECT_THAT(Error(Options("target", "again")), HasSubstr("is stored as i8 already"));
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

// All values are within the limit of 1e12. But the rotation gathers them in one column, which then exceeds the limit.
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
  EXPECT_THAT(build.err, HasSubstr("--seed 4: only i8 and codes are rotated, but the storage is f16"));
  EXPECT_EQ(ReadManifest(folder_.Path("out"))->generation, 2);
}

}  // namespace
}  // namespace maxsim::collection
