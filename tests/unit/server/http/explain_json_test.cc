// Tests the bodies of /v1/explain.
#include "server/http/rerank/explain_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/error_details.h"
#include "nlohmann/json.hpp"

namespace maxsim::http {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const service::RequestLimits kExplainLimits;

json ExplainBody() { return {{"model", "docs"}, {"query", {{0.5, -1.25}, {1e-3, 2}}}, {"id", "a"}}; }

std::string ExplainErrorOf(const std::string& body) {
  const auto parsed = ParseExplainRequest(body, kExplainLimits);
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << body;
  return std::string(parsed.status().message());
}

TEST(ExplainJsonTest, ABodyIsARequestOfOneQueryAndOneCandidate) {
  json body = ExplainBody();
  body["query_weights"] = {1, 0.5};
  const auto request = ParseExplainRequest(body.dump(), kExplainLimits);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->collection(), "docs");
  ASSERT_EQ(request->candidates().string_ids().ids_size(), 1);
  EXPECT_EQ(request->candidates().string_ids().ids(0), "a");
  ASSERT_EQ(request->queries_size(), 1);
  EXPECT_EQ(request->queries(0).tokens().num_tokens(), 2u);
  EXPECT_EQ(request->queries(0).weights(1), 0.5F);
  const auto* values = reinterpret_cast<const float*>(request->queries(0).tokens().data().data());
  EXPECT_EQ(values[1], -1.25F);
  EXPECT_EQ(values[2], 1e-3F) << "the value is read as /v1/rerank reads it";
  body["query"] = "in words";
  EXPECT_EQ(ParseExplainRequest(body.dump(), kExplainLimits)->queries(0).text(), "in words");
  body["id"] = 9007199254740993;
  EXPECT_EQ(ParseExplainRequest(body.dump(), kExplainLimits)->candidates().int_ids().ids(0), 9007199254740993);
}

TEST(ExplainJsonTest, WhatIsWrongIsNamedAsInTheBody) {
  EXPECT_THAT(ExplainErrorOf("{"), HasSubstr("the body is not JSON"));
  EXPECT_THAT(ExplainErrorOf("[]"), HasSubstr("the body is not a JSON object"));
  EXPECT_THAT(ExplainErrorOf(R"({"query": [[1e400]]})"),
              HasSubstr("the body is not JSON: malformed JSON: number overflow"));
  json body = ExplainBody();
  body.erase("id");
  EXPECT_THAT(ExplainErrorOf(body.dump()), HasSubstr("id: is missing"));
  for (const json& id : {json(1.5), json::array({"a"}), json(), json(true)}) {
    body["id"] = id;
    EXPECT_THAT(ExplainErrorOf(body.dump()), HasSubstr("id: is neither a text nor")) << id;
  }
  body["id"] = uint64_t{1} << 63;
  EXPECT_THAT(ExplainErrorOf(body.dump()), HasSubstr("id: "));
  for (const char* member : {"documents", "top_n", "texts", "user"}) {
    body = ExplainBody();
    body[member] = 1;
    EXPECT_THAT(ExplainErrorOf(body.dump()), HasSubstr(std::string(member) + ": is not a member"));
  }
  body = ExplainBody();
  body["query"] = {{"dtype", "f9"}, {"shape", {1, 2}}, {"data", ""}};
  EXPECT_THAT(ExplainErrorOf(body.dump()), HasSubstr("query.dtype"));
  body.erase("query");
  EXPECT_THAT(ExplainErrorOf(body.dump()), HasSubstr("query: is missing"));
  EXPECT_THAT(ExplainErrorOf(std::string(kMaxExplainBodyBytes + 1, ' ')),
              HasSubstr("bytes; must have at most 1048576"));
  EXPECT_THAT(ExplainErrorOf(std::string(100'000, '[')), HasSubstr("JSON nested deeper than 3 levels"));
}

TEST(ExplainJsonTest, ARepeatedMemberIsRefused) {
  const std::string body = ExplainBody().dump();
  EXPECT_EQ(ExplainErrorOf(R"({"query": [[9, 9]], )" + body.substr(1)), "query: appears twice");
  EXPECT_EQ(ExplainErrorOf(R"({"id": "b", )" + body.substr(1)), "id: appears twice");
  const std::string encoded = R"({"model": "docs", "id": "a", "query": {"dtype": "f32", "dtype": "f16"}})";
  EXPECT_EQ(ExplainErrorOf(encoded), "query.dtype: appears twice");
  EXPECT_EQ(client::FieldOf(ParseExplainRequest(encoded, kExplainLimits).status()), "query.dtype");
}

TEST(ExplainJsonTest, AnAnswerHasARowPerTokenOfTheQuery) {
  v1::Candidates document;
  document.mutable_string_ids()->add_ids("a\"b");
  v1::ExplainResponse explanation;
  explanation.set_generation(3);
  explanation.set_score(1.25);
  explanation.set_num_query_tokens(2);
  explanation.set_num_document_tokens(3);
  for (const double value : {0.5, -0.25, 0.0, 1e-9, 0.75, 0.125}) explanation.add_similarities(value);
  json answer = json::parse(FormatExplanation("docs", document, explanation));
  EXPECT_EQ(answer["id"], "a\"b");
  EXPECT_EQ(answer["model"], "docs");
  EXPECT_EQ(answer["generation"], 3);
  EXPECT_EQ(answer["score"], 1.25);
  EXPECT_EQ(answer["similarities"], json({{0.5, -0.25, 0}, {1e-9, 0.75, 0.125}}));
  EXPECT_FALSE(answer.contains("query_tokens"));
  EXPECT_FALSE(answer.contains("document_tokens"));
  for (const char* token : {"x", "y"}) explanation.add_query_tokens(token);
  for (const char* token : {"a", "b", "c"}) explanation.add_document_tokens(token);
  document.mutable_int_ids()->add_ids(9007199254740993);
  answer = json::parse(FormatExplanation("docs", document, explanation));
  EXPECT_EQ(answer["query_tokens"], json({"x", "y"}));
  EXPECT_EQ(answer["document_tokens"], json({"a", "b", "c"}));
  EXPECT_EQ(answer["id"], 9007199254740993);
}

TEST(ExplainJsonTest, AnErrorOfTheServiceNamesTheId) {
  const json error = json::parse(FormatExplainError(client::InvalidField("candidates.int_ids", "the ids are texts")));
  EXPECT_EQ(error["error"]["message"], "id: the ids are texts");
  EXPECT_EQ(error["error"]["field"], "id");
}

}  // namespace
}  // namespace maxsim::http
