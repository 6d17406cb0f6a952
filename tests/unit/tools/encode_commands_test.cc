// Tests the maxsim-shard commands that add codes to collections.
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

class EncodeCommandsTest : public ::testing::Test {
 protected:
  // Builds 20 documents of one token.
  Outcome Build(const std::string& output, const std::vector<std::string>& more = {}) {
    std::vector<float> values;
    for (int idx = 0; idx < 160; ++idx) values.push_back(static_cast<float>(idx % 7 - 3) / 4);
    collection::WriteBytes(folder_.Path("tokens.npy"),
                           collection::NpyBytes("<f4", "(20, 8)", collection::AsBytes(values)));
    collection::WriteBytes(folder_.Path("lengths.npy"),
                           collection::NpyBytes("<i8", "(20,)", collection::AsBytes(std::vector<int64_t>(20, 1))));
    std::vector<std::string> arguments = {
        "build",    "--tokens",          folder_.Path("tokens.npy"), "--lengths", folder_.Path("lengths.npy"),
        "--output", folder_.Path(output)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunShard(arguments);
  }
  nlohmann::json Inspect(const std::string& folder) {
    return nlohmann::json::parse(RunShard({"inspect", folder_.Path(folder), "--json"}).out);
  }

  collection::TemporaryFolder folder_;
};

TEST_F(EncodeCommandsTest, ABuildWithCodesIsShownAndVerified) {
  const Outcome built = Build("docs", {"--codes", "2", "--seed", "5"});
  ASSERT_EQ(built.code, 0) << built.err;
  EXPECT_THAT(built.out, HasSubstr("codes of 2 planes, "));
  EXPECT_EQ(Inspect("docs")["codes"],
            (nlohmann::json{{"planes", 2}, {"factors", false}, {"rotation", "hadamard"}, {"rotation_seed", 5}}));
  EXPECT_THAT(RunShard({"inspect", folder_.Path("docs")}).out,
              HasSubstr("codes         2 planes, without factors, rotation seed 5, "));
  EXPECT_THAT(RunShard({"verify", folder_.Path("docs")}).out, HasSubstr("no problem found"));
}

TEST_F(EncodeCommandsTest, TheNextGenerationHasAsManyPlanesUnlessItIsToldOtherwise) {
  ASSERT_EQ(Build("docs", {"--codes", "1", "--seed", "5"}).code, 0);
  ASSERT_EQ(Build("docs").code, 0);
  EXPECT_EQ(Inspect("docs")["generation"], 2);
  EXPECT_EQ(Inspect("docs")["codes"]["planes"], 1);
  EXPECT_EQ(Inspect("docs")["codes"]["rotation_seed"], 5);
  ASSERT_EQ(Build("docs", {"--codes", "4"}).code, 0);
  EXPECT_EQ(Inspect("docs")["codes"]["planes"], 4);
  EXPECT_EQ(Inspect("docs")["codes"]["rotation_seed"], 0);
  ASSERT_EQ(Build("docs", {"--codes", "0"}).code, 0);
  EXPECT_FALSE(Inspect("docs").contains("codes"));
  ASSERT_EQ(Build("parts", {"--codes", "1", "--partitions", "2"}).code, 0);
  EXPECT_EQ(Inspect("parts/partition-1-of-2")["codes"]["planes"], 1);
}

TEST_F(EncodeCommandsTest, EncodeGivesChangesAndTakesCodes) {
  ASSERT_EQ(Build("docs").code, 0);
  const std::string docs = folder_.Path("docs");
  const Outcome encoded = RunShard({"encode", docs, "--codes", "4", "--threads", "2"});
  ASSERT_EQ(encoded.code, 0) << encoded.err;
  EXPECT_THAT(encoded.out, AllOf(HasSubstr("generation 2 of \"docs\""), HasSubstr("codes of 4 planes"),
                                 HasSubstr("of codes written)")));
  EXPECT_THAT(RunShard({"encode", docs, "--codes", "4"}).out, HasSubstr(": nothing had changed)"));
  EXPECT_THAT(RunShard({"encode", docs, "--codes", "1"}).out,
              AllOf(HasSubstr("generation 3"), HasSubstr("codes of 1 plane, "), HasSubstr("(0 B of codes written)")));
  EXPECT_THAT(RunShard({"verify", docs}).out, HasSubstr("no problem found"));
  const Outcome gone = RunShard({"encode", docs, "--codes", "0"});
  EXPECT_THAT(gone.out, AllOf(HasSubstr("generation 4"), Not(HasSubstr("codes of"))));
  EXPECT_EQ(RunShard({"encode", docs, "--codes", "1", "--quiet"}).out, "");
  ASSERT_EQ(RunShard({"quantize", docs, folder_.Path("i8"), "--no-comparison", "--seed", "3"}).code, 0);
  EXPECT_EQ(Inspect("i8")["codes"]["planes"], 1);
  EXPECT_EQ(Inspect("i8")["codes"]["rotation_seed"], 3);
  ASSERT_EQ(RunShard({"quantize", docs, folder_.Path("i8-2"), "--no-comparison", "--codes", "0"}).code, 0);
  EXPECT_FALSE(Inspect("i8-2").contains("codes"));
}

TEST_F(EncodeCommandsTest, EvaluateSaysWhatSearchesByCodesFind) {
  ASSERT_EQ(Build("docs", {"--codes", "2"}).code, 0);
  const std::string docs = folder_.Path("docs");
  const std::string queries = folder_.Path("queries.npy");
  collection::WriteBytes(queries,
                         collection::NpyBytes("<f4", "(3, 2, 8)", collection::AsBytes(std::vector<float>(48, 0.25f))));
  const Outcome shown = RunShard({"evaluate", docs, "--queries", queries, "--top-k", "5"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("3 queries, top 5 "), HasSubstr("refines 20 documents"), HasSubstr("1 plane "),
                               HasSubstr("2 planes "), Not(HasSubstr("4 planes"))));
  const Outcome printed = RunShard({"evaluate", docs, "--queries", queries, "--top-k", "5", "--sample", "2", "--json"});
  ASSERT_EQ(printed.code, 0) << printed.err;
  const nlohmann::json json = nlohmann::json::parse(printed.out);
  EXPECT_EQ(json["queries"], 2);
  EXPECT_EQ(json["planes"][1]["planes"], 2);
  EXPECT_EQ(json["planes"][1]["mean_recall"], 1.0);
  ASSERT_EQ(RunShard({"encode", docs, "--codes", "0"}).code, 0);
  const Outcome none = RunShard({"evaluate", docs, "--queries", queries});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("has no codes; make them with maxsim-shard encode"));
}

TEST_F(EncodeCommandsTest, WhatIsWrongIsSaid) {
  ASSERT_EQ(Build("docs").code, 0);
  EXPECT_EQ(Build("docs", {"--codes", "3"}).code, 2);
  EXPECT_THAT(Build("docs", {"--codes", "3"}).err, HasSubstr("--codes"));
  EXPECT_EQ(RunShard({"encode", folder_.Path("docs")}).code, 2);
  EXPECT_EQ(RunShard({"encode", folder_.Path("docs"), "--codes", "8"}).code, 2);
  const Outcome missing = RunShard({"encode", folder_.Path("none"), "--codes", "1"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("none"));
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("none")));
}

}  // namespace
}  // namespace maxsim::shard_tool
