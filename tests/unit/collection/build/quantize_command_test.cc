// Tests `maxsim-shard quantize`: its comparison of rankings, its output and its errors.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/collection/run_shard.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/collection/build/quantize_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Runs the program, and its comparison of storages.
class QuantizeCliTest : public QuantizeTest {
 protected:
  std::vector<std::string> Arguments(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"quantize", folder_.Path("source"), folder_.Path("target")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  // Builds an f16 collection from the files of `data` (tokens.npy, lengths.npy and `ids`) and quantises it. Returns
  // how the rankings of all queries of `data` compare.
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
  EXPECT_THAT(error({"--name", "a b"}, 2), HasSubstr("maxsim-shard: --name: \"a b\" must be 1 to"));
  EXPECT_THAT(error({"--queries", folder_.Path("narrow.npy")}),
              HasSubstr("the dimension is 8, but the collection's is 16"));
  EXPECT_THAT(error({"--queries", folder_.Path("none.npy")}), HasSubstr("none.npy"));
  EXPECT_THAT(error({"--queries", queries, "--queries-jsonl", folder_.Path("queries.jsonl"), "--qrels",
                     folder_.Path("qrels.tsv")}),
              HasSubstr("holds 1 queries, but "));
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
