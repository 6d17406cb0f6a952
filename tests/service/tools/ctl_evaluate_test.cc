// Tests maxsimctl evaluate against a server that answers as each test tells it to.
#include <cstring>
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/service/tools/ctl_evaluate_fixture.h"
#include "tests/service/tools/run_ctl.h"
#include "tests/support/fake_server.h"
#include "tools/maxsimctl/maxsimctl.h"

namespace maxsim::ctl {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST_F(CtlEvaluateTest, TheFirstStageStandsBesideTheReranked) {
  // For q1, the first stage has the relevant document a at rank 1, and the server moves it to rank 2. For q2, the
  // server moves the relevant document b from rank 2 to rank 1.
  WriteFile("first.run", "q1 Q0 a 1 9 bm25\nq2 Q0 d 1 9 bm25\nq2 Q0 b 2 8 bm25\nq1 Q0 b 2 8 bm25\n");
  const Outcome run = Evaluate({"--candidates", Path("first.run"), "--k", "1", "--depth", "3"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.out,
            "measure   first stage  reranked  difference\n"
            "nDCG@1         0.5000    0.5000     +0.0000\n"
            "MRR@3          0.7500    0.7500     +0.0000\n"
            "recall@1       0.5000    0.5000     +0.0000\n"
            "recall@3       1.0000    1.0000     +0.0000\n");
  EXPECT_EQ(run.err, "means over 2 of 3 queries, those with a relevant document and candidates\n");
  ASSERT_GE(requests_.size(), 2);
  EXPECT_THAT(Ids(requests_[0].candidates()), ElementsAre("a", "b"));
  EXPECT_THAT(Ids(requests_[1].candidates()), ElementsAre("d", "b")) << "in the order of the first stage";
  EXPECT_EQ(requests_[0].missing_policy(), v1::MISSING_POLICY_REPORT);
}

TEST_F(CtlEvaluateTest, PerQueryPrintsEveryQueryAndMeasure) {
  WriteFile("first.run", "q1 Q0 a 1 9 bm25\nq1 Q0 b 2 8 bm25\nq2 Q0 d 1 9 bm25\nq2 Q0 b 2 8 bm25\n");
  const std::vector<std::string> arguments = {"--candidates", Path("first.run"), "--k", "1", "--depth", "1",
                                              "--per-query"};
  EXPECT_THAT(Evaluate(arguments).out, StartsWith("query  measure   first stage  reranked  difference\n"
                                                  "q1     nDCG@1         1.0000    0.0000     -1.0000\n"
                                                  "q1     MRR@1          1.0000    0.0000     -1.0000\n"
                                                  "q1     recall@1       1.0000    0.0000     -1.0000\n"
                                                  "q2     nDCG@1         0.0000    1.0000     +1.0000\n"
                                                  "q2     MRR@1          0.0000    1.0000     +1.0000\n"
                                                  "q2     recall@1       0.0000    1.0000     +1.0000\n"
                                                  "\n"
                                                  "measure   first stage  reranked  difference\n"
                                                  "nDCG@1         0.5000    0.5000     +0.0000\n"));
  std::vector<std::string> as_json = arguments;
  as_json.push_back("--json");
  const json report = json::parse(Evaluate(as_json).out);
  EXPECT_EQ(report["queries"], 2);
  EXPECT_EQ(report["first_stage"]["nDCG@1"], 0.5);
  EXPECT_EQ(report["per_query"][0]["query"], "q1");
  EXPECT_EQ(report["per_query"][0]["reranked"]["MRR@1"], 0.0);
  EXPECT_EQ(report["per_query"][1]["difference"]["recall@1"], 1.0);
  EXPECT_EQ(report["candidates"], 4);
  EXPECT_EQ(report["missing"], 0);
  // Without candidates there is one column.
  EXPECT_THAT(Evaluate({"--per-query", "--k", "1", "--depth", "1"}).out,
              StartsWith("query  measure   server\nq1     nDCG@1    0.0000\n"));
}

TEST_F(CtlEvaluateTest, TheRerankDepthTakesTheBestOfTheFirstStage) {
  // Sorted by score, then by id descending, the documents are d, b, a. The ranks in the file differ, and must be
  // ignored.
  WriteFile("first.run", "q1 Q0 a 1 5 t\nq1 Q0 b 2 5 t\nq1 Q0 d 3 6 t\n");
  const Outcome run = Evaluate({"--candidates", Path("first.run"), "--rerank-depth", "2", "--json"});
  EXPECT_EQ(run.code, 0) << run.err;
  ASSERT_FALSE(requests_.empty());
  EXPECT_THAT(Ids(requests_[0].candidates()), ElementsAre("d", "b"));
  const json report = json::parse(run.out);
  EXPECT_EQ(report["first_stage"]["recall@100"], 1.0) << "the first stage is measured whole";
  EXPECT_EQ(report["reranked"]["recall@100"], 0.0);
  EXPECT_EQ(report["candidates"], 2);
}

TEST_F(CtlEvaluateTest, WhatDoesNotMatchIsSaid) {
  WriteFile("first.run", "q1 Q0 a 1 5 t\nq1 Q0 gone 2 4 t\nq1 Q0 lost 2 3 t\nq7 Q0 a 1 1 t\nq8 Q0 a 1 1 t\n");
  const Outcome run = Evaluate({"--candidates", Path("first.run")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr("means over 1 of 3 queries"),
                             HasSubstr("warning: 2 of 3 queries of " + Path("first.run") + " are not in " +
                                       Path("q.jsonl") + ": q7, q8\n"),
                             HasSubstr("warning: 1 of 2 queries with a relevant document have no candidates in " +
                                       Path("first.run") + " and are left out: q2\n"),
                             HasSubstr("warning: 2 of 3 candidates are not in the collection docs, of 1 query\n")));
  WriteFile("first.run", "q9 Q0 a 1 5 t\n");
  const Outcome none = Evaluate({"--candidates", Path("first.run")});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("has a relevant document in " + Path("qrels") + " and candidates in "));
  EXPECT_EQ(none.out, "");
}

TEST_F(CtlEvaluateTest, CandidatesWhoseDeviceIsLostAreSaid) {
  server_.on_rerank = [](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
    grpc::Status status = Answer(request, response);
    response.mutable_results(0)->set_unavailable_documents(600);
    return status;
  };
  WriteFile("first.run", "q1 Q0 a 1 5 t\nq2 Q0 a 1 5 t\n");
  const Outcome run = Evaluate({"--candidates", Path("first.run"), "--json"});
  EXPECT_THAT(run.err, HasSubstr("warning: 1,200 candidates could not be scored: the server has lost a device\n"));
  EXPECT_EQ(json::parse(run.out)["unavailable_documents"], 1200);
}

TEST_F(CtlEvaluateTest, ARunIsWrittenAsItIsRead) {
  WriteFile("first.run", "q1 Q0 d 1 5 t\nq1 Q0 a 2 4 t\nq1 Q0 b 3 3 t\nq3 Q0 b 1 5 t\nq3 Q0 none 1 5 t\n");
  // The run must have all documents, although the measures have depth 1. It must also have the query without
  // judgements.
  const Outcome run = Evaluate({"--candidates", Path("first.run"), "--run-out", Path("out.run"), "--tag", "maxsim-1",
                                "--k", "1", "--depth", "1"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(ReadFile("out.run"),
            "q1 Q0 b 1 7.25 maxsim-1\n"
            "q1 Q0 d 2 2.5 maxsim-1\n"
            "q1 Q0 a 3 2.4999998 maxsim-1\n"
            "q3 Q0 b 1 7.25 maxsim-1\n")
      << "d and a have equal scores, and keep the first stage's order";
  EXPECT_THAT(run.err, HasSubstr("means over 1 of 3 queries"));
  EXPECT_FALSE(std::filesystem::exists(Path("out.run.tmp")));
  // The written run can be used as candidates again.
  EXPECT_EQ(Evaluate({"--candidates", Path("out.run")}).code, 0);
  EXPECT_THAT(Ids(requests_[0].candidates()), ElementsAre("b", "d", "a"));
  // Without candidates, the run has the best documents of the whole collection, as many as the depth.
  ASSERT_EQ(Evaluate({"--run-out", Path("out.run"), "--k", "1", "--depth", "2"}).code, 0);
  EXPECT_THAT(ReadFile("out.run"), StartsWith("q1 Q0 b 1 7.25 maxsim\nq1 Q0 a 2 2.5 maxsim\nq2 Q0 b 1 7.25 maxsim\n"));
}

TEST_F(CtlEvaluateTest, ARunThatCannotBeWrittenLeavesTheOldOne) {
  WriteFile("out.run", "old\n");
  server_.on_rerank = [](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
    grpc::Status status = Answer(request, response);
    response.mutable_results(0)->mutable_string_ids()->set_ids(0, "two words");
    return status;
  };
  const Outcome run = Evaluate({"--run-out", Path("out.run")});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("query \"q1\": --run-out: document id \"two words\" holds white space"));
  EXPECT_EQ(ReadFile("out.run"), "old\n");
  EXPECT_FALSE(std::filesystem::exists(Path("out.run.tmp")));
  // If the path cannot be written, maxsimctl must say so before it sends any query.
  server_.num_reranks = 0;
  EXPECT_THAT(Evaluate({"--run-out", folder_}).err, HasSubstr("--run-out: " + folder_ + " is a folder"));
  EXPECT_THAT(Evaluate({"--run-out", Path("no/out.run")}).err, HasSubstr("--run-out: cannot create"));
  EXPECT_EQ(server_.num_reranks, 0);
}

TEST_F(CtlEvaluateTest, IntegerIdsKeepTheSpellingOfTheRun) {
  server_.info.mutable_collections(0)->set_id_type(v1::ID_TYPE_INT64);
  WriteFile("first.run", "q1 Q0 017 1 9 t\nq1 Q0 x7 2 8 t\nq1 Q0 -3 3 7 t\nq1 Q0 5 4 6 t\nq2 Q0 x8 1 9 t\n");
  WriteFile("qrels", "q1 0 017 1\nq2 0 -3 1\n");
  const Outcome run = Evaluate({"--candidates", Path("first.run"), "--run-out", Path("out.run"), "--json"});
  EXPECT_EQ(run.code, 0) << run.err;
  ASSERT_FALSE(requests_.empty());
  EXPECT_THAT(requests_[0].candidates().int_ids().ids(), ElementsAre(17, -3, 5));
  EXPECT_EQ(ReadFile("out.run"), "q1 Q0 -3 1 4 maxsim\nq1 Q0 017 2 1 maxsim\n");
  const json report = json::parse(run.out);
  EXPECT_EQ(report["reranked"]["MRR@100"], 0.25) << "rank 2 of q1, and q2 found nothing";
  EXPECT_EQ(report["missing"], 3) << "x7, 5 and x8";
  EXPECT_THAT(run.err, HasSubstr("warning: 3 of 5 candidates are not in the collection docs, of 2 queries\n"));
}

TEST_F(CtlEvaluateTest, TextsAreSentInPlaceOfVectors) {
  const Outcome run = Evaluate({"--text"}, /*text=*/true);
  EXPECT_EQ(run.code, 0) << run.err;
  ASSERT_GE(requests_.size(), 2);
  EXPECT_EQ(requests_[0].queries(0).text(), "one");
  EXPECT_EQ(requests_[1].queries(0).text(), "two");
  EXPECT_FALSE(requests_[0].queries(0).has_tokens());
  WriteFile("q.jsonl", "{\"id\": \"q1\", \"text\": \"one\"}\n{\"id\": \"q2\"}\n");
  EXPECT_THAT(Evaluate({"--text"}, true).err, HasSubstr("query \"q2\" has no \"text\" to send"));
  EXPECT_EQ(Evaluate({}, true).code, kExitUsage) << "neither --queries nor --text";
  EXPECT_EQ(Evaluate({"--text"}).code, kExitUsage) << "both";
}

TEST_F(CtlEvaluateTest, QueriesThatTheEncoderCutAreCounted) {
  EXPECT_EQ(Evaluate({"--text"}, /*text=*/true).err.find("cut the end"), std::string::npos);
  const auto answer = server_.on_rerank;
  server_.on_rerank = [&](auto& context, const v1::RerankRequest& request, v1::RerankResponse& response) {
    const grpc::Status status = answer(context, request, response);
    response.mutable_results(0)->set_query_truncated(request.queries(0).text() == "two");
    return status;
  };
  EXPECT_THAT(Evaluate({"--text"}, /*text=*/true).err,
              HasSubstr("warning: the encoder cut the end of 1 query, longer than its model reads\n"));
}

TEST_F(CtlEvaluateTest, WrongFilesAndFlagsAreRefused) {
  WriteFile("first.run", "q1 Q0 a 1 5 t\nq1 Q0 b 1 five t\n");
  EXPECT_EQ(
      Evaluate({"--candidates", Path("first.run")}).err,
      "maxsimctl: INVALID_ARGUMENT: " + Path("first.run") + ":2: the score \"five\" is not a finite 32-bit number\n");
  EXPECT_THAT(Evaluate({"--candidates", "/no/run"}).err, HasSubstr("cannot read '/no/run'"));
  EXPECT_THAT(requests_, IsEmpty());
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{"--rerank-depth", "5"},
                                             {"--tag", "t"},
                                             {"--run-out", Path("o"), "--tag", "two words"},
                                             {"--candidates", Path("first.run"), "--rerank-depth", "0"},
                                             {"--candidates", Path("first.run"), "--reference"}}) {
    EXPECT_EQ(Evaluate(flags).code, kExitUsage) << ::testing::PrintToString(flags);
  }
  WriteFile("q.jsonl", "{\"id\": \"q1\"}\n{\"id\": \"q2\"}\n{\"id\": \"q1\"}\n");
  EXPECT_THAT(Evaluate({}).err, HasSubstr("two queries have the id \"q1\""));
}

TEST_F(CtlEvaluateTest, APositionBeyondTheCandidatesIsRefused) {
  server_.on_rerank = [](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
    grpc::Status status = Answer(request, response);
    response.mutable_results(0)->set_positions(0, 2);
    return status;
  };
  WriteFile("first.run", "q1 Q0 a 1 5 t\nq1 Q0 b 2 4 t\n");
  EXPECT_THAT(Evaluate({"--candidates", Path("first.run")}).err,
              HasSubstr("the server's answer is wrong: position 2 of 2 candidates"));
}

}  // namespace
}  // namespace maxsim::ctl
