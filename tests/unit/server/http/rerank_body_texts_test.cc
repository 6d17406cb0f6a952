// Tests rerank requests with texts, and requests that are written for other rerank services.
#include "server/http/rerank/rerank_body.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/server/http/rerank_body_fixture.h"

namespace maxsim::http {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::StartsWith;

TEST_F(RerankBodyTest, AQueryMayBeAText) {
  EXPECT_EQ(Parse(With("query", "what is it?"))->queries(0).text(), "what is it?");
  EXPECT_EQ(Parse(With("query", {{"text", "what?"}}))->queries(0).text(), "what?");
  EXPECT_THAT(ErrorOf(With("query", {{"text", 3}})), StartsWith("query.text: is 3, not a text"));
  EXPECT_EQ(ErrorOf(R"({"query": {"text": "a", "dtype": "f32"}})"),
            "query.dtype: is not a member beside the text before it");
  EXPECT_THAT(ErrorOf(R"({"query": {"dtype": "f32", "text": "a"}})"), StartsWith("query.text: is not a member"));
  EXPECT_THAT(ErrorOf(R"({"query": {}})"), StartsWith("query: must be a text"));
  EXPECT_EQ(ErrorOf(R"({"query": null, "documents": "*"})"), "query: is missing");
}

TEST_F(RerankBodyTest, AStringIsAnIdOrATextAsThePathSays) {
  const std::string body = R"({"query": "q", "documents": ["a", "b"]})";
  EXPECT_THAT(ParseFor("/v2/rerank", body)->request.candidates().string_ids().ids(), ElementsAre("a", "b"));
  const auto texts = ParseFor("/text/v2/rerank", body);
  EXPECT_THAT(texts->request.candidates().inline_documents().texts(), ElementsAre("a", "b"));
  EXPECT_EQ(texts->form.carried.size(), 2u);
  EXPECT_EQ(FindRerankPath("/text/v3/rerank"), nullptr);
}

TEST_F(RerankBodyTest, AnObjectSaysItselfWhatItIs) {
  const auto documents = [](const std::string& list) {
    return ParseFor("/text/v1/rerank", R"({"query": "q", "return_documents": true, "documents": )" + list + "}");
  };
  EXPECT_THAT(
      documents(R"([{"id": "a"}, {"id": "b", "title": {"x": [1, null]}}])")->request.candidates().string_ids().ids(),
      ElementsAre("a", "b"));
  EXPECT_THAT(documents(R"([{"id": 3}])")->request.candidates().int_ids().ids(), ElementsAre(3));
  const auto texts = documents(R"([ "a", {"n": 1E2, "text": "b", "id": 7}])");
  ASSERT_TRUE(texts.ok()) << texts.status();
  EXPECT_THAT(texts->request.candidates().inline_documents().texts(), ElementsAre("a", "b"));
  ASSERT_EQ(texts->form.carried.size(), 2u);
  EXPECT_EQ(texts->form.carried[0].text, "a");
  EXPECT_EQ(texts->form.carried[0].object, "");
  EXPECT_EQ(texts->form.carried[1].id, "7");
  EXPECT_EQ(texts->form.carried[1].object, R"({"n": 1E2, "text": "b", "id": 7})");
  const auto tokens = documents(R"([{"tokens": [[1, 2], [3, 4]], "id": "x\u0041"},
                                    {"tokens": {"dtype": "f16", "shape": [1, 2], "data": "AAAAAA=="}}])");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const v1::InlineDocuments& carried = tokens->request.candidates().inline_documents();
  ASSERT_EQ(carried.documents_size(), 2);
  EXPECT_EQ(carried.documents(0).num_tokens(), 2u);
  EXPECT_EQ(carried.documents(0).dtype(), v1::DATA_TYPE_F32);
  EXPECT_EQ(carried.documents(1).dtype(), v1::DATA_TYPE_F16);
  EXPECT_EQ(tokens->form.carried[0].id, "\"xA\"");
  const auto error = [&](const std::string& list) { return std::string(documents(list).status().message()); };
  EXPECT_THAT(error(R"(["a", {"id": "b"}])"), StartsWith(R"(documents[1]: is "b"; documents must be of one kind)"));
  EXPECT_THAT(error(R"([{"id": 1}, {"id": "b"}])"), StartsWith(R"(documents[1]: is "b"; )"));
  EXPECT_EQ(error(R"([{"title": "a"}])"), "documents[0]: has none of id, text and tokens");
  EXPECT_EQ(error(R"([{"text": "a", "tokens": [[1]]}])"), "documents[0]: has text and tokens");
  EXPECT_EQ(error(R"([{"text": "a", "text": "b"}])"), "documents[0].text: appears twice");
  EXPECT_EQ(error(R"([{"text": ["a"]}])"), R"(documents[0].text: is ["a"], not a text)");
  EXPECT_EQ(error(R"([{"id": 1.5}])"), "documents[0].id: is 1.5, not a text or a 64-bit integer");
  EXPECT_EQ(error(R"([{"tokens": [[1]]}, {"tokens": [[1], [2, 3]]}])"),
            "documents[1].tokens[1]: must be a row of 1 numbers as the first is");
  EXPECT_EQ(error(R"([{"tokens": "x"}])"),
            "documents[0].tokens: is \"x\"; must be a list of rows of numbers, or {dtype, shape, data}");
}

TEST_F(RerankBodyTest, MembersOfOtherServicesAreAccepted) {
  const auto accepted = [](const char* path, const std::string& members) {
    return ParseFor(path, R"({"query": "q", )" + members + "}");
  };
  // These are the members that clients of Cohere v2 (LangChain), Jina (Haystack), Voyage, TEI (rerankers and Haystack)
  // and vLLM send.
  EXPECT_TRUE(
      accepted("/v2/rerank", R"("documents": ["a"], "model": "m", "top_n": 3, "max_tokens_per_doc": null)").ok());
  EXPECT_TRUE(accepted("/v1/rerank", R"("documents": ["a"], "rank_fields": ["text"], "max_chunks_per_doc": 3)").ok());
  const auto voyage = accepted("/v1/rerank", R"("documents": ["a"], "top_k": null, "truncation": true)");
  ASSERT_TRUE(voyage.ok()) << voyage.status();
  EXPECT_EQ(voyage->form.shape, AnswerShape::kData);
  const auto tei = accepted("/rerank", R"("texts": ["a"], "raw_scores": false, "return_text": true, "truncate": true,
                                          "truncation_direction": "Left", "top_n": 1)");
  ASSERT_TRUE(tei.ok()) << tei.status();
  EXPECT_EQ(tei->form.shape, AnswerShape::kList);
  EXPECT_EQ(tei->request.missing_policy(), v1::MISSING_POLICY_FAIL);
  EXPECT_TRUE(tei->request.return_payloads());
  const auto vllm = accepted("/rerank", R"("documents": ["a"], "priority": 0, "mm_processor_kwargs": {"a": [{}]})");
  ASSERT_TRUE(vllm.ok()) << vllm.status();
  EXPECT_EQ(vllm->form.shape, AnswerShape::kResults);
  EXPECT_EQ(accepted("/rerank", R"("texts": ["a"], "documents": ["b"])").status().message(),
            "documents: appears twice");
}

TEST_F(RerankBodyTest, ClientsOfOtherServicesAreRead) {
  const auto parse = [](const char* path, const std::string& members) {
    auto parsed = ParseFor(path, R"({"query": "q", )" + members + "}");
    EXPECT_TRUE(parsed.ok()) << members << parsed.status();
    return *std::move(parsed);
  };
  // These are the members that LlamaIndex (SiliconFlow), Xinference's client, LiteLLM and RAGFlow send.
  parse("/text/v1/rerank", R"("documents": ["a"], "max_chunks_per_doc": 1024, "overlap_tokens": 80)");
  parse("/text/v1/rerank", R"("documents": ["a"], "return_len": null, "kwargs": "{}")");
  parse("/text/rerank",
        R"("documents": ["a"], "instruction": "i", "truncation_side": "left", "max_tokens_per_query": 9)");
  parse("/text/v1/rerank", R"("documents": ["a"], "user_id": "u", "encoding_format": "float")");
  EXPECT_TRUE(parse("/text/v1/rerank", R"("documents": ["a"], "return_documents": "True")").request.return_payloads());
  EXPECT_FALSE(
      parse("/text/v1/rerank", R"("documents": ["a"], "return_documents": "false")").request.return_payloads());
  EXPECT_EQ(ErrorOf(With("return_documents", "yes")), "return_documents: is \"yes\", not true or false");
  EXPECT_EQ(parse("/v1/rerank", R"("documents": ["a"], "model_id": "m")").request.collection(), "m");
  EXPECT_EQ(parse("/v1/rerank", R"("documents": ["a"], "score_threshold": 0.5)").request.min_score(), 0.5F);
  EXPECT_EQ(ErrorOf(With("score_threshold", "0.5")), "score_threshold: is \"0.5\", not a number");
  const RerankBody nim = parse("/text/v1/ranking", R"("passages": [{"text": "a"}], "truncate": "END")");
  EXPECT_EQ(nim.form.shape, AnswerShape::kRankings);
  EXPECT_THAT(nim.request.candidates().inline_documents().texts(), ElementsAre("a"));
}

TEST_F(RerankBodyTest, RankFieldsSayWhatTheTextOfAnObjectIs) {
  const auto texts = [](const std::string& documents, const std::string& fields, const char* path = "/v1/rerank") {
    const auto parsed = ParseFor(path, R"({"query": "q", "return_documents": true, "documents": )" + documents +
                                           R"(, "rank_fields": )" + fields + "}");
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    const auto& list = parsed->request.candidates().inline_documents().texts();
    return std::vector<std::string>(list.begin(), list.end());
  };
  EXPECT_THAT(texts(R"([{"title": "T", "n": 7, "body": "B"}, {"body": "C"}])", R"(["title", "n", "body"])"),
              ElementsAre("T\n7\nB", "C"));
  EXPECT_THAT(texts(R"([{"text": "x", "title": "T"}, "s"])", R"(["title"])", "/text/v1/rerank"), ElementsAre("T", "s"));
  EXPECT_THAT(texts(R"([{"id": 1, "title": "T"}, {"id": 2, "title": "U"}])", R"(["title"])", "/text/v1/rerank"),
              ElementsAre("T", "U"));
  // On paths without /text these are stored documents.
  const auto stored =
      ParseFor("/v1/rerank", R"({"query": "q", "documents": [{"id": 1, "title": "T"}], "rank_fields": ["title"]})");
  EXPECT_THAT(stored->request.candidates().int_ids().ids(), ElementsAre(1));
  const auto error = [](const std::string& members) {
    return std::string(ParseFor("/v1/rerank", R"({"query": "q", )" + members + "}").status().message());
  };
  EXPECT_EQ(error(R"("documents": [{"title": "T"}, {"other": 1}], "rank_fields": ["title"])"),
            "documents[1]: has none of the members that rank_fields names");
  EXPECT_EQ(error(R"("documents": ["a"], "rank_fields": [3])"), "rank_fields[0]: is 3, not a text");
  EXPECT_EQ(error(R"("documents": ["a"], "rank_fields": "title")"), "rank_fields: must be a list of names");
}

TEST_F(RerankBodyTest, WhatComesBackIsAskedFor) {
  const auto request = Parse(With("payload_fields", {"title", "url"}));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->payload_fields(), ElementsAre("title", "url"));
  EXPECT_TRUE(Parse(With("normalize", true))->normalize());
  EXPECT_TRUE(Parse(With("return_alignments", true))->return_alignments());
  EXPECT_EQ(ErrorOf(With("payload_fields", "title")), "payload_fields: must be a list of names");
  EXPECT_EQ(ErrorOf(With("payload_fields", {"title", 3})), "payload_fields[1]: is 3, not a text");
  EXPECT_THAT(ErrorOf(With("payload_fields", json(std::vector<std::string>(65, "a")))),
              StartsWith("payload_fields: has more than 64 names"));
  EXPECT_EQ(ErrorOf(With("normalize", 1)), "normalize: is 1, not true or false");
}

}  // namespace
}  // namespace maxsim::http
