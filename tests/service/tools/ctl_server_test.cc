// Tests the real programs together: maxsim-shard builds a collection, maxsimd serves it, and maxsimctl queries it.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/service/tools/programs.h"
#include "tests/support/connections/fake_encoder.h"

namespace maxsim::client {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The paths of the files of a collection (token matrices, texts, judgements) and of its queries.
struct Data {
  std::string folder, documents;
  std::string operator/(const std::string& name) const { return folder + "/" + name; }
};

// Returns the folder of the bundled collection, or "" if the working folder is neither the repository nor an unpacked
// bundle.
std::string DemoFolder() { return std::filesystem::exists("demo/tokens.npy") ? "demo" : ""; }

std::string CranfieldFolder() {
  const char* shared = std::getenv("MAXSIM_SHARED_DATA");
  const std::string folder = std::string(shared != nullptr ? shared : "../shared/data") + "/cranfield";
  return std::filesystem::exists(folder + "/tokens.npy") ? folder : "";
}

class CtlServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* program : {"maxsimd", "maxsimctl", "maxsim-shard"}) {
      if (ProgramPath(program).empty())
        GTEST_SKIP() << program << " has not been built (MAXSIM_BIN_DIR names its folder)";
    }
  }

  void Build(const Data& data, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"build",
                                          "--tokens",
                                          data / "tokens.npy",
                                          "--lengths",
                                          data / "lengths.npy",
                                          "--ids",
                                          data / data.documents,
                                          "--output",
                                          collection_,
                                          "--name",
                                          "docs",
                                          "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult built = RunProgram("maxsim-shard", arguments);
    ASSERT_EQ(built.exit_code, 0) << built.err;
  }

  static ProgramResult Ctl(const ServerProcess& server, std::vector<std::string> arguments) {
    return RunProgram("maxsimctl", arguments, {{"MAXSIM_SERVER", server.address()}});
  }

  // Returns arguments that name a data set's queries.
  static std::vector<std::string> Queries(const Data& data, const std::string& command, std::vector<std::string> more) {
    std::vector<std::string> arguments = {command, "--query-lengths", data / "query_lengths.npy"};
    arguments.push_back(command == "verify" || command == "evaluate" ? "--queries" : "--query");
    arguments.push_back(data / "query_tokens.npy");
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  TemporaryFolder folder_;
  const std::string collection_ = folder_ / "docs";
};

TEST_F(CtlServerTest, TheBundledCollectionFromFilesToAnswers) {
  const Data demo{DemoFolder(), "passages.jsonl"};
  if (demo.folder.empty()) GTEST_SKIP() << "demo/ is not in the working directory";
  ASSERT_NO_FATAL_FAILURE(Build(demo, {"--max-shard-bytes", "1MiB"}));
  const ServerProcess server({"docs=" + collection_});
  ASSERT_TRUE(server.ready()) << server.Log();

  ProgramResult run = Ctl(server, Queries(demo, "rerank", {"--all", "--payload", "--json", "--top-k", "5"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json answer = json::parse(run.out);
  ASSERT_EQ(answer["results"].size(), 5);
  const std::string best = answer["results"][0]["id"];
  EXPECT_TRUE(answer["results"][0]["payload"].contains("text"));

  // A request that lists these documents by id, worst first, with one unknown id, must return bit-identical scores.
  std::string ids = "no-such-document";
  for (int i = 4; i >= 0; --i) ids += "," + answer["results"][i]["id"].get<std::string>();
  run = Ctl(server, Queries(demo, "rerank", {"--ids", ids, "--json"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json listed = json::parse(run.out);
  EXPECT_EQ(listed["missing"], json::parse(R"(["no-such-document"])"));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(listed["results"][i]["id"], answer["results"][i]["id"]);
    EXPECT_EQ(listed["results"][i]["score"], answer["results"][i]["score"]);
    EXPECT_EQ(listed["results"][i]["position"], 5 - i) << "index in the list, after the unknown id";
  }

  run = Ctl(server, Queries(demo, "explain", {"--queries-jsonl", demo / "queries.jsonl", "--color", "always"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("document  " + best), HasSubstr("won of the score"), HasSubstr("\033[48;5;")));

  // A sample of 0 means the whole collection. The collection has 150 documents, so a larger sample draws all of them.
  for (const auto& [asked, drawn, results] : {std::tuple{"0", 0, 100}, {"40", 40, 40}, {"1000", 150, 100}}) {
    run = Ctl(server, Queries(demo, "verify", {"--sample", "0", "--candidates", asked, "--json"}));
    EXPECT_EQ(run.exit_code, 0) << run.err << run.out;
    const json report = json::parse(run.out);
    EXPECT_EQ(report["queries"], 15);
    EXPECT_LE(report["error_by_magnitude"], 1e-5);
    EXPECT_EQ(report["overlap"], 1.0);
    EXPECT_EQ(report["candidates"], drawn);
    EXPECT_EQ(report["results"], 15 * results);
  }
  run = Ctl(server, Queries(demo, "evaluate",
                            {"--queries-jsonl", demo / "queries.jsonl", "--qrels", demo / "qrels.tsv", "--reference"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("nDCG@10"));
}

TEST_F(CtlServerTest, AProvenAnswerOfCodesIsTheExactOne) {
  const Data demo{DemoFolder(), "passages.jsonl"};
  if (demo.folder.empty()) GTEST_SKIP() << "demo/ is not in the working directory";
  ASSERT_NO_FATAL_FAILURE(Build(demo));
  const ServerProcess server({"docs=" + collection_});
  ASSERT_TRUE(server.ready()) << server.Log();
  const auto rerank = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--all", "--json", "--top-k", "5"});
    const ProgramResult run = Ctl(server, Queries(demo, "rerank", more));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return json::parse(run.out);
  };
  const json exact = rerank({});
  EXPECT_FALSE(exact.contains("refinement"));

  ASSERT_EQ(RunProgram("maxsim-shard", {"encode", collection_, "--codes", "4"}).exit_code, 0);
  ASSERT_THAT(Ctl(server, {"reload", "docs"}).out, StartsWith("reloaded docs: generation 2"));
  const json refined = rerank({"--refine", "20", "--prove", "--budget", "149"});
  ASSERT_TRUE(refined.contains("refinement"));
  EXPECT_EQ(refined["refinement"]["planes"], 4);
  EXPECT_LT(refined["refinement"]["documents"], 150);
  EXPECT_EQ(refined["refinement"]["certificate"], "PROVEN");
  EXPECT_EQ(refined["results"], exact["results"]);
  // By default at least 1,000 documents are scored exactly, so this small collection is not searched by codes.
  EXPECT_FALSE(rerank({}).contains("refinement"));
  EXPECT_EQ(Ctl(server, Queries(demo, "verify", {"--sample", "2"})).exit_code, 0);
}

TEST_F(CtlServerTest, AFirstStageIsRerankedIntoARun) {
  const Data demo{DemoFolder(), "passages.jsonl"};
  if (demo.folder.empty()) GTEST_SKIP() << "demo/ is not in the working directory";
  ASSERT_NO_FATAL_FAILURE(Build(demo));
  const ServerProcess server({"docs=" + collection_});
  ASSERT_TRUE(server.ready()) << server.Log();
  const auto evaluate = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--queries-jsonl", demo / "queries.jsonl", "--qrels", demo / "qrels.tsv", "--json"});
    ProgramResult run = Ctl(server, Queries(demo, "evaluate", more));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return json::parse(run.out);
  };
  // The first stage is the server's own ranking in reverse order, with one unknown document added.
  const json whole = evaluate({"--run-out", folder_ / "whole.run", "--depth", "150"});
  std::ifstream lines(folder_ / "whole.run");
  std::ofstream reversed(folder_ / "reversed.run");
  std::string query, q0, id, rank, score, tag;
  size_t num_lines = 0;
  for (; lines >> query >> q0 >> id >> rank >> score >> tag; ++num_lines) {
    if (rank == "1") reversed << query << " Q0 no-such-document 1 1e9 reversed\n";
    reversed << query << ' ' << q0 << ' ' << id << ' ' << rank << ' ' << rank << " reversed\n";
  }
  reversed.close();
  EXPECT_EQ(num_lines, 15 * 150);

  const json reranked =
      evaluate({"--candidates", folder_ / "reversed.run", "--run-out", folder_ / "again.run", "--depth", "150"});
  EXPECT_EQ(reranked["reranked"], whole["server"]);
  EXPECT_LT(reranked["first_stage"]["nDCG@10"], 0.1);
  EXPECT_EQ(reranked["missing"], 15);
  EXPECT_EQ(reranked["candidates"], 15 * 151);
  // The first 76 candidates are the unknown document and the 75 worst documents.
  EXPECT_LT(evaluate({"--candidates", folder_ / "reversed.run", "--rerank-depth", "76"})["reranked"]["nDCG@10"], 0.1);

  const ProgramResult same = RunProgram("maxsimctl", {"compare-runs", folder_ / "whole.run", folder_ / "again.run",
                                                      "--qrels", demo / "qrels.tsv", "--json"});
  ASSERT_EQ(same.exit_code, 0) << same.err;
  EXPECT_EQ(json::parse(same.out)["tests"]["nDCG@10"]["ties"], 15);
  EXPECT_EQ(json::parse(same.out)["a"]["nDCG@10"], whole["server"]["nDCG@10"]);
  const ProgramResult better = RunProgram("maxsimctl", {"compare-runs", folder_ / "reversed.run", folder_ / "again.run",
                                                        "--qrels", demo / "qrels.tsv", "--json"});
  ASSERT_EQ(better.exit_code, 0) << better.err;
  EXPECT_LT(json::parse(better.out)["tests"]["nDCG@10"]["p_randomisation"], 0.001);
}

TEST_F(CtlServerTest, ATextIsRankedAsItsVectorsAre) {
  const Data demo{DemoFolder(), "passages.jsonl"};
  if (demo.folder.empty()) GTEST_SKIP() << "demo/ is not in the working directory";
  ASSERT_NO_FATAL_FAILURE(Build(demo));
  constexpr int kDim = 128;
  const test::FakeEncoder encoder(
      [](const test::FakeCall& call) { return test::FakeReply{.body = test::AnswerList(test::TextsOf(call), kDim)}; });
  const ServerProcess server({"docs=" + collection_}, {"--encoder.url", encoder.url(), "--encoder.dialect", "tei"});
  ASSERT_TRUE(server.ready()) << server.Log();

  const std::vector<float> values = test::MatrixOf("why volcanoes explode", kDim);
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" + std::to_string(values.size() / kDim) +
                       ", " + std::to_string(kDim) + "), }";
  header.resize(128 - 10 - 1, ' ');
  header.push_back('\n');
  std::ofstream file(folder_ / "q.npy", std::ios::binary);
  file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size()) << '\0' << header;
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(float)));
  file.close();
  const auto results = [&](const std::string& option, const std::string& value) {
    const ProgramResult run = Ctl(server, {"rerank", option, value, "--all", "--alignments", "--json"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.exit_code == 0 ? json::parse(run.out)["results"] : json();
  };
  const json text = results("--text", "why volcanoes explode");
  EXPECT_EQ(text.size(), 10);
  EXPECT_EQ(text, results("--query", folder_ / "q.npy"));
  const ProgramResult evaluated = Ctl(server, {"evaluate", "--text", "--queries-jsonl", demo / "queries.jsonl",
                                               "--qrels", demo / "qrels.tsv", "--json"});
  EXPECT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_EQ(json::parse(evaluated.out)["queries"], 15);
}

TEST_F(CtlServerTest, TheBundledCollectionInI8) {
  const Data demo{DemoFolder(), "passages.jsonl"};
  if (demo.folder.empty()) GTEST_SKIP() << "demo/ is not in the working directory";
  ASSERT_NO_FATAL_FAILURE(Build(demo));
  const std::string smaller = folder_ / "docs-i8";
  ProgramResult run =
      RunProgram("maxsim-shard", {"quantize", collection_, smaller, "--json", "--sample", "0", "--queries",
                                  demo / "query_tokens.npy", "--query-lengths", demo / "query_lengths.npy",
                                  "--queries-jsonl", demo / "queries.jsonl", "--qrels", demo / "qrels.tsv"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json quantized = json::parse(run.out);
  EXPECT_GE(quantized["quality"]["spearman"], 0.9999);
  const ServerProcess server({"docs=" + smaller});
  ASSERT_TRUE(server.ready()) << server.Log();
  EXPECT_THAT(Ctl(server, {"info"}).out, HasSubstr("i8"));

  for (const char* candidates : {"0", "40"}) {
    run = Ctl(server, Queries(demo, "verify", {"--sample", "0", "--candidates", candidates, "--json"}));
    EXPECT_EQ(run.exit_code, 0) << run.err << run.out;
    const json report = json::parse(run.out);
    EXPECT_LE(report["error_by_magnitude"], 1e-5);
    EXPECT_EQ(report["overlap"], 1.0);
  }
  run = Ctl(server, Queries(demo, "verify", {"--sample", "2"}));
  EXPECT_THAT(run.out, HasSubstr("tokens of dimension 128 in i8")) << run.err;
  run =
      Ctl(server,
          Queries(demo, "evaluate",
                  {"--queries-jsonl", demo / "queries.jsonl", "--qrels", demo / "qrels.tsv", "--reference", "--json"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_NEAR(json::parse(run.out)["server"]["nDCG@10"].get<double>(),
              quantized["quality"]["ndcg"]["after"].get<double>(), 1e-9);
  run = Ctl(server, Queries(demo, "explain", {"--queries-jsonl", demo / "queries.jsonl"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("the sum over 12 query tokens"));

  // --path names the files of the original collection. They do not match the served copy, which has another storage
  // type.
  run = Ctl(server, Queries(demo, "verify", {"--sample", "1", "--path", collection_}));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("has storage i8"), HasSubstr("has f16")));
}

TEST_F(CtlServerTest, CollectionsComeReloadAndGo) {
  const Data demo{DemoFolder(), "passages.jsonl"};
  if (demo.folder.empty()) GTEST_SKIP() << "demo/ is not in the working directory";
  ASSERT_NO_FATAL_FAILURE(Build(demo));
  const ServerProcess server({"docs=" + collection_}, {"--store.allowed_roots", folder_ / ""});
  ASSERT_TRUE(server.ready()) << server.Log();

  EXPECT_THAT(Ctl(server, {"reload", "docs"}).out, StartsWith("unchanged docs: generation 1"));
  ASSERT_NO_FATAL_FAILURE(Build(demo));  // publishes generation 2
  ProgramResult run = Ctl(server, Queries(demo, "verify", {"--sample", "1"}));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("has generation 1"), HasSubstr("maxsimctl reload")));
  EXPECT_THAT(Ctl(server, {"reload", "docs"}).out, StartsWith("reloaded docs: generation 2"));
  EXPECT_EQ(Ctl(server, Queries(demo, "verify", {"--sample", "1"})).exit_code, 0);

  run = Ctl(server, {"load", "docs", collection_});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, StartsWith("maxsimctl: ALREADY_EXISTS"));
  EXPECT_EQ(Ctl(server, {"unload", "docs"}).exit_code, 0);
  run = Ctl(server, {"collections"});
  EXPECT_EQ(run.out, "no collections\n") << run.err;
  run = Ctl(server, {"load", "docs", "/etc"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, StartsWith("maxsimctl: PERMISSION_DENIED"));
  run = Ctl(server, Queries(demo, "rerank", {"--all", "--collection", "docs"}));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("NOT_FOUND"));
  EXPECT_THAT(Ctl(server, {"load", "docs", collection_}).out, StartsWith("loaded docs: generation 2"));
  EXPECT_EQ(Ctl(server, Queries(demo, "verify", {"--sample", "1"})).exit_code, 0);
}

TEST_F(CtlServerTest, VerifyCatchesFilesThatDifferFromWhatIsServed) {
  const Data demo{DemoFolder(), "passages.jsonl"};
  if (demo.folder.empty()) GTEST_SKIP() << "demo/ is not in the working directory";
  ASSERT_NO_FATAL_FAILURE(Build(demo));
  // Swaps the halves of the token array. Shapes and ids stay the same, but documents get other documents' vectors.
  const std::string other = folder_ / "other";
  std::string tokens;
  {
    std::ifstream file(demo / "tokens.npy", std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    tokens = bytes.str();
  }
  const size_t half = (tokens.size() - 128) / 4 * 2;  // whole float16 elements after NumPy's 128-byte header
  std::rotate(tokens.begin() + 128, tokens.begin() + 128 + static_cast<std::ptrdiff_t>(half), tokens.end());
  std::ofstream(folder_ / "rotated.npy", std::ios::binary) << tokens;
  const ProgramResult built =
      RunProgram("maxsim-shard", {"build", "--tokens", folder_ / "rotated.npy", "--lengths", demo / "lengths.npy",
                                  "--ids", demo / demo.documents, "--output", other, "--name", "docs", "--quiet"});
  ASSERT_EQ(built.exit_code, 0) << built.err;
  const ServerProcess server({"docs=" + collection_});
  ASSERT_TRUE(server.ready()) << server.Log();
  const ProgramResult run = Ctl(server, Queries(demo, "verify", {"--sample", "2", "--path", other}));
  EXPECT_EQ(run.exit_code, 1) << run.out;
  EXPECT_THAT(run.err, HasSubstr("the largest error"));
}

TEST_F(CtlServerTest, TheServersOwnWordsOnAWrongDimension) {
  const Data demo{DemoFolder(), "passages.jsonl"};
  const std::string cranfield = CranfieldFolder();
  if (demo.folder.empty()) GTEST_SKIP() << "demo/ is not in the working directory";
  if (cranfield.empty()) GTEST_SKIP() << "needs Cranfield";
  ASSERT_NO_FATAL_FAILURE(Build(demo));
  const ServerProcess server({"docs=" + collection_});
  ASSERT_TRUE(server.ready()) << server.Log();
  const ProgramResult run = Ctl(server, Queries(Data{cranfield, ""}, "rerank", {"--all"}));
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("96"), HasSubstr("128")));
}

TEST_F(CtlServerTest, CranfieldEqualsItsPublishedTruth) {
  const Data cranfield{CranfieldFolder(), "docs.jsonl"};
  if (cranfield.folder.empty()) GTEST_SKIP() << "needs Cranfield";
  ASSERT_NO_FATAL_FAILURE(Build(cranfield));
  const ServerProcess server({"docs=" + collection_});
  ASSERT_TRUE(server.ready()) << server.Log();
  ProgramResult run = Ctl(server, Queries(cranfield, "verify", {"--sample", "12", "--top-k", "100"}));
  EXPECT_EQ(run.exit_code, 0) << run.err << run.out;
  EXPECT_THAT(run.out, HasSubstr("100.000 % (1,200 of 1,200)"));
  run = Ctl(server, Queries(cranfield, "evaluate",
                            {"--queries-jsonl", cranfield / "queries.jsonl", "--qrels", cranfield / "qrels.tsv"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("nDCG@10     0.5218\n")) << "the FP64 scores of this encoding have it";
}

}  // namespace
}  // namespace maxsim::client
