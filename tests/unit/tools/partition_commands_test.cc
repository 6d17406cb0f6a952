// Tests the commands of maxsim-shard that make partitions, as users run them.
#include <filesystem>
#include <string>
#include <vector>

#include "collection/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/collection/run_shard.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::shard_tool {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PartitionCommandsTest : public ::testing::Test {
 protected:
  // Writes 20 documents of one token with payloads. Returns the arguments that build them.
  std::vector<std::string> BuildArguments(std::vector<std::string> more) {
    collection::WriteBytes(folder_.Path("tokens.npy"),
                           collection::NpyBytes("<f4", "(20, 8)", collection::AsBytes(std::vector<float>(160, 0.5f))));
    collection::WriteBytes(folder_.Path("lengths.npy"),
                           collection::NpyBytes("<i8", "(20,)", collection::AsBytes(std::vector<int64_t>(20, 1))));
    std::string lines;
    for (int n = 0; n < 20; ++n) lines += "{\"id\":\"d" + std::to_string(n) + "\",\"n\":" + std::to_string(n) + "}\n";
    collection::WriteBytes(folder_.Path("docs.jsonl"), lines);
    std::vector<std::string> arguments = {"build",
                                          "--tokens",
                                          folder_.Path("tokens.npy"),
                                          "--lengths",
                                          folder_.Path("lengths.npy"),
                                          "--ids",
                                          folder_.Path("docs.jsonl")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string Checksum(const std::string& folder) {
    const auto manifest = collection::ReadManifest(folder_.Path(folder));
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return manifest.ok() && manifest->shards.size() == 1 ? manifest->shards[0].checksum : "";
  }

  collection::TemporaryFolder folder_;
};

TEST_F(PartitionCommandsTest, ABuildOfPartitionsSaysAFolderALineAndEachIsShownAndVerified) {
  const Outcome built = RunShard(BuildArguments({"--output", folder_.Path("wiki"), "--partitions", "3"}));
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_THAT(built.out, AllOf(HasSubstr("wiki/partition-0-of-3: generation 1 of \"wiki\", slots 0 .. 1364: "),
                               HasSubstr("wiki/partition-1-of-3: generation 1 of \"wiki\", slots 1365 .. 2729: "),
                               HasSubstr("wiki/partition-2-of-3: generation 1 of \"wiki\", slots 2730 .. 4095: ")));
  const std::string part = folder_.Path("wiki/partition-1-of-3");
  EXPECT_THAT(RunShard({"inspect", part}).out, HasSubstr("partition     slots 1365 .. 2729 of 4,096\n"));
  const nlohmann::json json = nlohmann::json::parse(RunShard({"inspect", part, "--json"}).out);
  EXPECT_EQ(json["partition"], (nlohmann::json{{"first_slot", 1365}, {"end_slot", 2730}}));
  const Outcome verified = RunShard({"verify", part});
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("no problem found"));
  EXPECT_EQ(RunShard(BuildArguments({"--output", folder_.Path("quiet"), "--partitions", "2", "--quiet"})).out, "");
}

TEST_F(PartitionCommandsTest, SplitAndMergeGiveTheCollectionBack) {
  ASSERT_EQ(RunShard(BuildArguments({"--output", folder_.Path("wiki")})).code, 0);
  const Outcome split = RunShard({"split", folder_.Path("wiki"), "--into", "2", "--output", folder_.Path("parts")});
  ASSERT_EQ(split.code, 0) << split.err;
  EXPECT_THAT(split.out, AllOf(HasSubstr("parts/partition-0-of-2: generation 1 of \"wiki\", slots 0 .. 2047: "),
                               HasSubstr("parts/partition-1-of-2: generation 1 of \"wiki\", slots 2048 .. 4095: ")));
  const Outcome further =
      RunShard({"split", folder_.Path("parts/partition-1-of-2"), "--into", "2", "--output", folder_.Path("further")});
  ASSERT_EQ(further.code, 0) << further.err;
  EXPECT_THAT(further.out, HasSubstr("further/slots-3072-4095: generation 1 of \"wiki\", slots 3072 .. 4095: "));
  const Outcome merged =
      RunShard({"merge", folder_.Path("further/slots-2048-3071"), folder_.Path("parts/partition-0-of-2"),
                folder_.Path("further/slots-3072-4095"), "--output", folder_.Path("again")});
  ASSERT_EQ(merged.code, 0) << merged.err;
  EXPECT_THAT(merged.out, AllOf(HasSubstr("again: generation 1 of \"wiki\": 20 documents"), Not(HasSubstr("slots"))));
  EXPECT_EQ(Checksum("again"), Checksum("wiki"));
  EXPECT_EQ(RunShard({"merge", folder_.Path("further/slots-2048-3071"), folder_.Path("further/slots-3072-4095"),
                      "--output", folder_.Path("half"), "--quiet"})
                .out,
            "");
  EXPECT_EQ(Checksum("half"), Checksum("parts/partition-1-of-2"));
}

TEST_F(PartitionCommandsTest, WhatCannotBePutTogetherFailsAndSaysWhy) {
  ASSERT_EQ(RunShard(BuildArguments({"--output", folder_.Path("wiki"), "--partitions", "3"})).code, 0);
  const Outcome merged = RunShard({"merge", folder_.Path("wiki/partition-0-of-3"),
                                   folder_.Path("wiki/partition-2-of-3"), "--output", folder_.Path("out")});
  EXPECT_EQ(merged.code, 1);
  EXPECT_THAT(merged.err, HasSubstr("slots 1365 .. 2729 are missing between them"));
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("out")));
  const Outcome split = RunShard({"split", folder_.Path("nothing"), "--into", "2", "--output", folder_.Path("out")});
  EXPECT_EQ(split.code, 1);
  EXPECT_THAT(split.err, HasSubstr("nothing"));
}

TEST_F(PartitionCommandsTest, WrongNumbersOfPartitionsAreUsageErrors) {
  for (const std::string count : {"0", "4097", "x"}) {
    const Outcome built = RunShard(BuildArguments({"--output", folder_.Path("wiki"), "--partitions", count}));
    EXPECT_EQ(built.code, 2) << count;
    EXPECT_THAT(built.err, HasSubstr("--partitions")) << count;
  }
  for (const std::string count : {"1", "4097", "x"}) {
    const Outcome split = RunShard({"split", "a", "--into", count, "--output", "b"});
    EXPECT_EQ(split.code, 2) << count;
    EXPECT_THAT(split.err, HasSubstr("--into")) << count;
  }
  EXPECT_EQ(RunShard({"split", "a", "--output", "b"}).code, 2);
  EXPECT_EQ(RunShard({"merge", "a", "b"}).code, 2);
}

TEST_F(PartitionCommandsTest, ARestoreOfNoBackupMakesNothing) {
  const std::string out = folder_.Path("out");
  const Outcome none = RunShard({"restore", "file://" + folder_.Path("none"), out});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("there is no manifest.json"));
  EXPECT_THAT(RunShard({"restore", "ftp://host/x", out}).err,
              HasSubstr("must be s3://BUCKET/PREFIX or file:///FOLDER"));
  EXPECT_EQ(RunShard({"restore", "file:///x"}).code, 2);
  for (const std::string count : {"0", "4097", "x"}) {
    EXPECT_EQ(RunShard({"restore", "file:///x", out, "--into", count}).code, 2) << count;
  }
  EXPECT_FALSE(std::filesystem::exists(out));
}

TEST_F(PartitionCommandsTest, APartitionIsQuantizedEvenWithoutDocuments) {
  ASSERT_EQ(RunShard(BuildArguments({"--output", folder_.Path("wiki"), "--partitions", "512"})).code, 0);
  int num_empty = 0;
  for (int index = 0; index < 512 && num_empty == 0; ++index) {
    const std::string part = folder_.Path("wiki/partition-" + std::to_string(index) + "-of-512");
    if (collection::ReadManifest(part)->num_documents > 0) continue;
    ++num_empty;
    const Outcome quantized = RunShard({"quantize", part, folder_.Path("i8")});
    EXPECT_EQ(quantized.code, 0) << quantized.err;
    EXPECT_THAT(quantized.out, HasSubstr("0 documents"));
    EXPECT_EQ(collection::ReadManifest(folder_.Path("i8"))->partition, collection::ReadManifest(part)->partition);
    const Outcome again = RunShard({"build", "--input", part, "--output", folder_.Path("whole")});
    EXPECT_EQ(again.code, 1);
    EXPECT_THAT(again.err, HasSubstr("there is no document to build from"));
  }
  EXPECT_EQ(num_empty, 1);
}

}  // namespace
}  // namespace maxsim::shard_tool
