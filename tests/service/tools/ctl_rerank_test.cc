// Tests maxsimctl's rerank, explain, evaluate and verify, with a fake server whose answers each test chooses.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/service/tools/ctl_fixture.h"
#include "tools/maxsimctl/context/context.h"
#include "tools/maxsimctl/maxsimctl.h"

namespace maxsim::ctl {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(CtlTest, RerankPrintsATable) {
  const Outcome run = Run({"rerank", "--query", Path("q.npy"), "--ids", "doc-a,doc-b", "--payload"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.out,
            "rank  id        score  position  title\n"
            "   1  doc-b  1.500000         1  On wings [2J\n"
            "   2  doc-a  0.100000         0  On wings [2J\n");
  EXPECT_THAT(run.err, HasSubstr("collection passages, generation 3"));
  EXPECT_EQ(request_.collection(), "passages") << "the only one, without --collection";
  EXPECT_EQ(request_.queries(0).tokens().num_tokens(), 2);
  EXPECT_EQ(request_.candidates().string_ids().ids_size(), 2);
}

TEST_F(CtlTest, RerankPrintsJsonThatScriptsCanRead) {
  const Outcome run = Run({"rerank", "--query", Path("q.npy"), "--all", "--payload", "--alignments", "--json"});
  EXPECT_EQ(run.code, 0) << run.err;
  const json answer = json::parse(run.out);
  EXPECT_EQ(answer["generation"], 3);
  EXPECT_EQ(answer["results"][0]["id"], "doc-b");
  EXPECT_EQ(answer["results"][1]["score"].dump(), "0.1") << "the shortest decimal of the float";
  EXPECT_EQ(answer["results"][0]["payload"]["tokens"][2], "##s");
  EXPECT_EQ(answer["results"][0]["alignment"]["document_tokens"], json::parse("[2, 0]"));
  EXPECT_TRUE(request_.candidates().has_whole_collection());
}

TEST_F(CtlTest, RerankSendsTheFilterAsItIsWritten) {
  const std::string filter = "lang = \"en\" and not year < 2020";
  for (const std::vector<std::string>& candidates : {std::vector<std::string>{"--all"}, {"--ids", "doc-a,doc-b"}}) {
    std::vector<std::string> arguments = {"rerank", "--query", Path("q.npy"), "--filter", filter};
    arguments.insert(arguments.end(), candidates.begin(), candidates.end());
    const Outcome run = Run(arguments);
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(request_.filter_text(), filter);
  }
  EXPECT_EQ(Run({"rerank", "--query", Path("q.npy"), "--all"}).code, 0);
  EXPECT_EQ(request_.matching_case(), v1::RerankRequest::MATCHING_NOT_SET);
  // The server, and not maxsimctl, parses the filter and reports the error in it.
  server_.on_rerank = [](auto&, const v1::RerankRequest&, v1::RerankResponse&) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "filter_text: position 8: found \"en\"");
  };
  const Outcome refused = Run({"rerank", "--query", Path("q.npy"), "--all", "--filter", "lang = en"});
  EXPECT_EQ(refused.code, kExitFailed);
  EXPECT_THAT(refused.err, HasSubstr("filter_text: position 8: found"));
}

TEST_F(CtlTest, RerankAsksForAPage) {
  const Outcome run = Run({"rerank", "--query", Path("q.npy"), "--all", "--offset", "20", "--min-score", "-0.5"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(request_.offset(), 20u);
  EXPECT_EQ(request_.min_score(), -0.5F);
  EXPECT_THAT(run.out, HasSubstr("  21  doc-b  1.500000         1\n  22  doc-a"))
      << "ranks count from the first of all";
  const Outcome as_json = Run({"rerank", "--query", Path("q.npy"), "--all", "--offset", "20", "--json"});
  EXPECT_EQ(json::parse(as_json.out)["results"][1]["rank"], 22);
  EXPECT_EQ(Run({"rerank", "--query", Path("q.npy"), "--all"}).code, 0);
  EXPECT_EQ(request_.offset(), 0u);
  EXPECT_FALSE(request_.has_min_score());
  EXPECT_NE(Run({"rerank", "--query", Path("q.npy"), "--all", "--offset", "-1"}).code, 0);
}

TEST_F(CtlTest, RerankPrintsGroups) {
  std::vector<std::string> values = {"birds", "birds"};
  server_.on_rerank = [&](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
    request_ = request;
    grpc::Status status = Answer(request, response);
    response.mutable_results(0)->mutable_group_values()->Assign(values.begin(), values.end());
    return status;
  };
  std::vector<std::string> arguments = {"rerank", "--query",      Path("q.npy"), "--all",    "--group-by",
                                        "topic",  "--group-size", "3",           "--offset", "4"};
  const Outcome run = Run(arguments);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(request_.group_by(), "topic");
  EXPECT_EQ(request_.group_size(), 3u);
  EXPECT_EQ(run.out,
            "rank  id        score  position  group\n"
            "   5  doc-b  1.500000         1  birds\n"
            "   5  doc-a  0.100000         0  birds\n")
      << "ranks count groups";
  values = {"birds", "bees"};
  arguments.push_back("--json");
  const json answer = json::parse(Run(arguments).out);
  EXPECT_EQ(answer["results"][1]["group"], "bees");
  EXPECT_EQ(answer["results"][1]["rank"], 6);
  values.clear();
  EXPECT_THAT(Run(arguments).err, HasSubstr("the server's answer is wrong: 0 groups for 2 documents"));
  EXPECT_NE(Run({"rerank", "--query", Path("q.npy"), "--all", "--group-size", "3"}).code, 0);
}

TEST_F(CtlTest, RerankSendsAText) {
  server_.on_rerank = [this](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
    request_ = request;
    grpc::Status status = Answer(request, response);
    response.mutable_results(0)->add_query_tokens("wing");
    response.mutable_results(0)->add_query_tokens("##s");
    response.mutable_timings()->set_encode_us(1500);
    return status;
  };
  const Outcome run = Run({"rerank", "--text", "on wings", "--all", "--alignments"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(request_.queries(0).text(), "on wings");
  EXPECT_FALSE(request_.queries(0).has_tokens());
  EXPECT_THAT(run.out, HasSubstr("0:2 1:0")) << "alignments of as many tokens as the server says";
  EXPECT_THAT(run.err, HasSubstr(" ms on the server (encoding 1.50, queue "));
  const json answer = json::parse(Run({"rerank", "--text", "on wings", "--all", "--alignments", "--json"}).out);
  EXPECT_EQ(answer["query_tokens"], json::parse(R"(["wing", "##s"])"));
  EXPECT_EQ(answer["timings_us"]["encode"], 1500);
  EXPECT_FALSE(answer.contains("query_truncated"));
  EXPECT_THAT(run.err, Not(HasSubstr("cut the end")));
}

TEST_F(CtlTest, RerankAndExplainSayThatATextWasCut) {
  server_.on_rerank = [](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
    grpc::Status status = Answer(request, response);
    response.mutable_results(0)->set_query_truncated(true);
    for (int i = 0; i < response.results(0).scores_size(); ++i) response.mutable_results(0)->add_truncated(i == 0);
    return status;
  };
  const std::string of_query = "the encoder cut the end of the query's text, which is longer than its model reads\n";
  const Outcome run = Run({"rerank", "--text", "a long text", "--all"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr(of_query));
  EXPECT_THAT(run.err, HasSubstr("the encoder cut the end of 1 document\n"));
  const json answer = json::parse(Run({"rerank", "--text", "a long text", "--all", "--json"}).out);
  EXPECT_EQ(answer["query_truncated"], true);
  EXPECT_EQ(answer["results"][0]["truncated"], true);
  EXPECT_FALSE(answer["results"][1].contains("truncated"));
  const Outcome explained = Run({"explain", "--text", "a long text"});
  EXPECT_EQ(explained.code, 0) << explained.err;
  EXPECT_THAT(explained.err, HasSubstr(of_query));
}

TEST_F(CtlTest, RerankReadsIdsFromAFileAndReportsMissingOnes) {
  WriteFile("ids.txt", "doc-a\ngone\n");
  const Outcome run = Run({"rerank", "--query", Path("q.npy"), "--ids-file", Path("ids.txt"), "--top-k", "1"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.err, HasSubstr("1 id is not in the collection: gone"));
  EXPECT_EQ(request_.missing_policy(), v1::MISSING_POLICY_REPORT);
  EXPECT_THAT(run.out, Not(HasSubstr("doc-a")));
}

TEST_F(CtlTest, RerankSaysWhatALostDeviceTook) {
  server_.on_rerank = [](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
    grpc::Status status = Answer(request, response);
    response.mutable_results(0)->set_unavailable_documents(1200);
    return status;
  };
  const Outcome run = Run({"rerank", "--query", Path("q.npy"), "--all"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(
      run.err,
      HasSubstr(
          "1,200 candidates could not be scored: the server has lost a device, or does not reach other servers\n"));
  const Outcome as_json = Run({"rerank", "--query", Path("q.npy"), "--all", "--json"});
  EXPECT_EQ(json::parse(as_json.out)["unavailable_documents"], 1200);
}

TEST_F(CtlTest, RerankNamesGroupsThatDoNotAnswer) {
  server_.on_rerank = [](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
    grpc::Status status = Answer(request, response);
    response.mutable_results(0)->set_unavailable_documents(2);
    response.add_unavailable_groups("g1");
    response.add_unavailable_groups("g3");
    return status;
  };
  const Outcome run = Run({"rerank", "--query", Path("q.npy"), "--all"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.err, HasSubstr("2 candidates could not be scored: groups g1, g3 do not answer\n"));
  const Outcome as_json = Run({"rerank", "--query", Path("q.npy"), "--all", "--json"});
  EXPECT_EQ(json::parse(as_json.out)["unavailable_groups"], json({"g1", "g3"}));
}

TEST_F(CtlTest, RerankAsksForARefinementAndSaysWhatCameOfIt) {
  v1::Refinement refinement;
  refinement.set_planes(4);
  refinement.set_documents(1234);
  refinement.set_certificate(v1::CERTIFICATE_PROVEN);
  server_.on_rerank = [&](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
    request_ = request;
    grpc::Status status = Answer(request, response);
    *response.mutable_results(0)->mutable_refinement() = refinement;
    return status;
  };
  Outcome run = Run({"rerank", "--query", Path("q.npy"), "--all", "--refine", "50", "--prove", "--budget", "900"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(request_.refinement().documents(), 50u);
  EXPECT_EQ(request_.refinement().budget(), 900u);
  EXPECT_TRUE(request_.refinement().require_proof());
  EXPECT_THAT(run.err, HasSubstr("scanned 4 planes of codes, scored 1,234 documents; proven\n"));

  refinement.set_planes(1);
  refinement.set_certificate(v1::CERTIFICATE_NOT_PROVEN);
  refinement.set_outside_score(2);
  refinement.set_margin(0.25);
  run = Run({"rerank", "--query", Path("q.npy"), "--all"});
  EXPECT_FALSE(request_.has_refinement());
  EXPECT_THAT(run.err, HasSubstr("scanned 1 plane of codes, scored 1,234 documents; not proven, margin 0.250000 to the "
                                 "estimates of the others\n"));
  const json shown = json::parse(Run({"rerank", "--query", Path("q.npy"), "--all", "--json"}).out)["refinement"];
  EXPECT_EQ(shown, json::parse(R"({"planes": 1, "documents": 1234, "certificate": "NOT_PROVEN", "margin": 0.25,
                                   "outside_score": 2.0, "outside_is_bound": false})"));
  EXPECT_THAT(Run({"rerank", "--query", Path("q.npy"), "--all", "--budget", "9"}).err, HasSubstr("--prove"));
}

TEST_F(CtlTest, IntegerCollectionsWantIntegers) {
  server_.info.mutable_collections(0)->set_id_type(v1::ID_TYPE_INT64);
  EXPECT_EQ(Run({"rerank", "--query", Path("q.npy"), "--ids", "7,-1"}).code, 0);
  EXPECT_EQ(request_.candidates().int_ids().ids(1), -1);
  const Outcome run = Run({"rerank", "--query", Path("q.npy"), "--ids", "7,x"});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("candidate 2: \"x\""));
}

TEST_F(CtlTest, OfSeveralCollectionsOneIsToBeNamed) {
  v1::CollectionInfo* other = server_.info.add_collections();
  *other = server_.info.collections(0);
  other->set_name("pages");
  const Outcome run = Run({"rerank", "--query", Path("q.npy"), "--all"});
  EXPECT_EQ(run.code, kExitFailed) << "it takes the server to tell";
  EXPECT_EQ(run.err, "maxsimctl: INVALID_ARGUMENT: --collection is needed: the server holds passages, pages\n");
}

TEST_F(CtlTest, ExplainColoursOnlyWhereItShould) {
  WriteFile("texts.jsonl", R"({"id": "q1", "text": "wings", "tokens": ["[CLS]", "wing"]})");
  const std::vector<std::string> arguments = {"explain",           "--query", Path("q.npy"), "--queries-jsonl",
                                              Path("texts.jsonl"), "--id",    "doc-b"};
  const Outcome plain = Run(arguments);
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.out,
            "query     q1  wings\n"
            "document  doc-b  On wings [2J\n"
            "score     1.500000, the sum over 2 query tokens of their similarities\n"
            "\n"
            "#  query token  similarity                        at  document token\n"
            "0  [CLS]            0.7500  ####################   2  ##s\n"
            "1  wing             0.7500  ####################   0  on\n");
  EXPECT_EQ(request_.missing_policy(), v1::MISSING_POLICY_FAIL);
  EXPECT_TRUE(request_.return_alignments());
  EXPECT_EQ(Run(arguments, /*terminal=*/true, /*no_color=*/"1").out, plain.out);
  EXPECT_THAT(Run(arguments, /*terminal=*/true).out, HasSubstr("\033[48;5;"));
  std::vector<std::string> always = arguments;
  always.insert(always.end(), {"--color", "always"});
  EXPECT_THAT(Run(always, false, "1").out, HasSubstr("\033[48;5;"));
  always.back() = "never";
  EXPECT_EQ(Run(always, true).out, plain.out);
}

TEST_F(CtlTest, ExplainWithoutAnIdTakesTheBestDocument) {
  EXPECT_EQ(Run({"explain", "--query", Path("q.npy")}).code, 0);
  EXPECT_TRUE(request_.candidates().has_whole_collection());
  EXPECT_EQ(request_.top_k(), 1);
}

TEST_F(CtlTest, ExplainSendsAText) {
  server_.on_rerank = [this](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
    request_ = request;
    grpc::Status status = Answer(request, response);
    response.mutable_results(0)->add_query_tokens("wing");
    response.mutable_results(0)->add_query_tokens("##s");
    return status;
  };
  const Outcome run = Run({"explain", "--text", "on wings", "--id", "doc-b"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(request_.queries(0).text(), "on wings");
  EXPECT_THAT(run.out, HasSubstr("query     on wings\n"));
  EXPECT_THAT(run.out, HasSubstr("1  ##s ")) << "the pieces are those that the server names";
  for (const char* option : {"--weights", "--queries-jsonl", "--query-lengths"}) {
    EXPECT_EQ(Run({"explain", "--text", "on wings", option, Path("q.npy")}).code, kExitUsage) << option;
  }
  EXPECT_EQ(Run({"explain", "--id", "doc-b"}).code, kExitUsage) << "neither vectors nor a text";
}

TEST_F(CtlTest, AnAnswerWithRaggedArraysIsRefused) {
  for (int fault = 0; fault < 5; ++fault) {
    server_.on_rerank = [fault](auto&, const v1::RerankRequest& request, v1::RerankResponse& response) {
      grpc::Status status = Answer(request, response);
      v1::QueryResult& result = *response.mutable_results(0);
      if (fault == 0) result.mutable_string_ids()->mutable_ids()->RemoveLast();
      if (fault == 1) result.add_positions(3);
      if (fault == 2) result.mutable_alignments(0)->add_similarities(1);
      if (fault == 3) result.mutable_payloads()->Add("{}");
      if (fault == 4) response.clear_results();
      return status;
    };
    const Outcome run = Run({"explain", "--query", Path("q.npy"), "--id", "doc-b"});
    EXPECT_EQ(run.code, 1) << fault;
    EXPECT_THAT(run.err, HasSubstr("the server's answer is wrong")) << fault;
  }
}

TEST_F(CtlTest, EvaluateMatchesHandComputation) {
  WriteFile("texts.jsonl", R"({"id": "q1"})");
  WriteFile("qrels.tsv", "q1\tdoc-a\t3\nq1\tdoc-c\t1\n");
  const Outcome run = Run(
      {"evaluate", "--queries", Path("q.npy"), "--queries-jsonl", Path("texts.jsonl"), "--qrels", Path("qrels.tsv")});
  EXPECT_EQ(run.code, 0) << run.err;
  // With doc-a at rank 2, nDCG is 3 / log2(3), divided by the ideal 3 + 1 / log2(3).
  EXPECT_EQ(run.out,
            "measure     server\n"
            "nDCG@10     0.5213\n"
            "MRR@100     0.5000\n"
            "recall@10   0.5000\n"
            "recall@100  0.5000\n");
  WriteFile("qrels.tsv", "q9\tdoc-a\t3\n");
  EXPECT_EQ(Run({"evaluate", "--queries", Path("q.npy"), "--queries-jsonl", Path("texts.jsonl"), "--qrels",
                 Path("qrels.tsv")})
                .code,
            1)
      << "no query is judged";
}

TEST_F(CtlTest, EvaluateSaysWhichJudgementsAreOfNoUse) {
  WriteFile("texts.jsonl", R"({"id": "q1"})");
  WriteFile("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\tdoc-a\t3\nq1\tgone\t1\nq2\tgone-too\t1\n");
  const std::vector<std::string> arguments = {"evaluate",          "--queries", Path("q.npy"),    "--queries-jsonl",
                                              Path("texts.jsonl"), "--qrels",   Path("qrels.tsv")};
  const Outcome run = Run(arguments);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("warning: 1 of 2 judged documents are not in the collection passages\n"));
  EXPECT_EQ(request_.missing_policy(), v1::MISSING_POLICY_REPORT);
  // If ids are integers, a text cannot be an id of the collection.
  server_.info.mutable_collections(0)->set_id_type(v1::ID_TYPE_INT64);
  EXPECT_THAT(Run(arguments).err, HasSubstr("warning: 2 of 2 judged documents"));
  server_.info.mutable_collections(0)->set_id_type(v1::ID_TYPE_STRING);
  WriteFile("qrels.tsv", "q1\tdoc-a\t3\n");
  EXPECT_THAT(Run(arguments).err, Not(HasSubstr("judged documents")));
}

TEST_F(CtlTest, VerifyNeedsTheFilesThatTheServerServes) {
  const Outcome run = Run({"verify", "--queries", Path("q.npy"), "--path", "/no/such/collection"});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, AllOf(HasSubstr("--path"), HasSubstr("/no/such/collection")));
}

}  // namespace
}  // namespace maxsim::ctl
