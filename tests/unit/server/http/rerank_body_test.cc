// Tests how each member of a rerank request over HTTP is read, and which values are refused.
#include "server/http/rerank/rerank_body.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/unit/server/http/rerank_body_fixture.h"

namespace maxsim::http {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(RerankBodyTest, NestedNumbersBecomeAnF32Matrix) {
  const auto request = Parse(With("top_n", 1));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->collection(), "c");
  EXPECT_EQ(request->top_k(), 1u);
  EXPECT_FALSE(request->return_payloads());
  const v1::TokenMatrix& tokens = request->queries(0).tokens();
  EXPECT_EQ(tokens.dtype(), v1::DATA_TYPE_F32);
  EXPECT_EQ(tokens.num_tokens(), 2u);
  EXPECT_EQ(tokens.dim(), 2u);
  float values[4];
  ASSERT_EQ(tokens.data().size(), sizeof(values));
  std::memcpy(values, tokens.data().data(), sizeof(values));
  EXPECT_THAT(values, ElementsAre(0.5F, 1.0F, -1.0F, 0.0F));
  EXPECT_THAT(request->candidates().string_ids().ids(), ElementsAre("a", "b"));
}

TEST_F(RerankBodyTest, EncodedBytesAreTakenAsTheyAre) {
  const std::string bytes("\x00\x3c\x00\xc0", 4);
  const json query = {{"dtype", "f16"}, {"shape", {1, 2}}, {"data", absl::Base64Escape(bytes)}};
  const auto request = Parse(With("query", query));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->queries(0).tokens().dtype(), v1::DATA_TYPE_F16);
  EXPECT_EQ(request->queries(0).tokens().data(), bytes);
}

TEST_F(RerankBodyTest, IdsAreTextsIntegersOrTheWholeCollection) {
  const auto ints = Parse(With("documents", {1, -2, INT64_MAX}));
  ASSERT_TRUE(ints.ok()) << ints.status();
  EXPECT_THAT(ints->candidates().int_ids().ids(), ElementsAre(1, -2, INT64_MAX));
  EXPECT_TRUE(Parse(With("documents", "*"))->candidates().has_whole_collection());
  EXPECT_THAT(ErrorOf(With("documents", {"a", 1})), HasSubstr("documents[1]: is 1; documents must be of one kind"));
  EXPECT_THAT(ErrorOf(With("documents", {1, "a"})), HasSubstr("documents[1]"));
  EXPECT_THAT(ErrorOf(With("documents", {1.5})), HasSubstr("documents[0]: is 1.5"));
  EXPECT_THAT(ErrorOf(With("documents", {uint64_t{1} << 63})), HasSubstr("documents[0]: is 9223372036854775808"));
  EXPECT_THAT(ErrorOf(With("documents", json::array())), HasSubstr("documents: must be a list of documents"));
  EXPECT_THAT(ErrorOf(With("documents", "all")), HasSubstr("documents: must be"));
}

TEST_F(RerankBodyTest, WhatIsMissingOrUnknownIsNamed) {
  EXPECT_EQ(Parse(With("model", nullptr))->collection(), "") << "which the service refuses where it matters";
  EXPECT_EQ(ErrorOf(With("query", nullptr)), "query: is missing");
  EXPECT_EQ(ErrorOf(With("documents", nullptr)), "documents: is missing");
  EXPECT_THAT(ErrorOf(With("topn", 3)), StartsWith("topn: is not a member"));
  EXPECT_THAT(ErrorOf(With(std::string(1000, 'm'), 3)),
              StartsWith(absl::StrCat(std::string(64, 'm'), "...: is not a member")));
  EXPECT_THAT(ErrorOf("{\n\"model\": c}"),
              StartsWith("the body is not JSON: malformed JSON: parse error at line 2, column"));
  EXPECT_THAT(ErrorOf(""), StartsWith("the body is not JSON: malformed JSON: parse error at line 1, column 1"));
  EXPECT_EQ(ErrorOf(With("top_n", 3) + std::string("\0{}", 3)), "the body is not JSON: a NUL byte in JSON text");
  EXPECT_EQ(ErrorOf("[1]"), "the body is not a JSON object");
  EXPECT_EQ(ErrorOf(R"([{"a": 1, "a": 2}])"), "the body is not a JSON object");
}

TEST_F(RerankBodyTest, FieldsOfTheMessageAreToldTheirNameHere) {
  const std::string members =
      "(model, query, query_weights, documents, top_n, return_documents, return_alignments, "
      "payload_fields, normalize, offset, min_score, group_by, group_size, refinement, filter, min_sequence and "
      "request_id "
      "are)";
  EXPECT_THAT(ErrorOf(With("collection", "c")), EndsWith("; HTTP's name for it is model"));
  EXPECT_THAT(ErrorOf(With("queries", 1)), EndsWith("; HTTP's name for it is query"));
  EXPECT_THAT(ErrorOf(With("candidates", 1)), EndsWith("; HTTP's name for it is documents"));
  EXPECT_THAT(ErrorOf(With("return_payloads", true)), EndsWith("; HTTP's name for it is return_documents"));
  EXPECT_EQ(ErrorOf(With("top", 3)), "top: is not a member " + members);
}

TEST_F(RerankBodyTest, MembersThatAppearTwiceAreRefused) {
  const std::string start = R"({"model": "c", "documents": "*", "query": )";
  EXPECT_TRUE(Parse(start + R"({"dtype": "f32", "shape": [1, 1], "data": "AAAAAA=="}})").ok());
  EXPECT_EQ(ErrorOf(start + R"([[1]], "model": "d"})"), "model: appears twice");
  EXPECT_EQ(ErrorOf(start + R"({"dtype": "f32", "shape": [1, 1], "data": "AAAAAA==", "shape": [1, 1]}})"),
            "query.shape: appears twice");
  EXPECT_EQ(ErrorOf(start + R"({"dtype": "f32", "shape": [1, 1], "data": "AAAAAA=="}, "query": [[1]]})"),
            "query: appears twice");
}

TEST_F(RerankBodyTest, DeepNestingIsRefusedBeforeAnythingWalksIt) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_THAT(ErrorOf(deep), HasSubstr("nested deeper than"));
  EXPECT_THAT(ErrorOf(std::string(100000, '[')), HasSubstr("nested deeper than"));
  EXPECT_THAT(ErrorOf("{\"model\": " + deep + ", \"query\": [[1]], \"documents\": \"*\"}"),
              HasSubstr("nested deeper than"));
}

TEST_F(RerankBodyTest, WrongMembersNameTheirValue) {
  EXPECT_THAT(ErrorOf(With("model", 3)), HasSubstr("model: is 3, not a text"));
  EXPECT_THAT(ErrorOf(With("return_documents", "yes")), HasSubstr("return_documents: is \"yes\""));
  EXPECT_THAT(ErrorOf(With("query", 7)), HasSubstr("query: must be a text, a list of rows"));
  EXPECT_THAT(ErrorOf(With("query", json::array())), HasSubstr("query: must be a list of rows"));
  EXPECT_THAT(ErrorOf(With("query", {{1, 2}, {3}})), HasSubstr("query[1]: must be a row of 2 numbers"));
  EXPECT_THAT(ErrorOf(With("query", {{1, 2}, {3, "x"}})), HasSubstr("query[1][1]: is \"x\", not a number"));
  EXPECT_THAT(ErrorOf(With("query_weights", {1, true})), HasSubstr("query_weights[1]: is true"));
  const auto encoded = [](const char* member, const json& value) {
    json query = {{"dtype", "f32"}, {"shape", {1, 1}}, {"data", "AAAAAA=="}};
    query[member] = value;
    return With("query", query);
  };
  EXPECT_TRUE(Parse(encoded("dtype", "f32")).ok());
  EXPECT_THAT(ErrorOf(encoded("dtype", "i8")), HasSubstr("query.dtype: is \"i8\""));
  for (const json& shape : {json({1, -1}), json({1, 1, 1}), json({4294967296, 64}), json({1, 4294967296}), json(1)}) {
    EXPECT_EQ(ErrorOf(encoded("shape", shape)),
              absl::StrCat("query.shape: is ", shape.dump(),
                           "; must be [tokens, dim]: 1 to 512 (limits.max_query_tokens), and the collection's "
                           "dimension"));
  }
  EXPECT_THAT(ErrorOf(encoded("data", "not base64!")), HasSubstr("query.data: is not base64"));
  EXPECT_THAT(ErrorOf(encoded("order", "C")), HasSubstr("query.order: is not a member"));
}

TEST_F(RerankBodyTest, ARefinementIsAnObject) {
  const auto full = Parse(With("refinement", {{"documents", 20}, {"budget", 4294967295}, {"require_proof", true}}));
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(full->refinement().documents(), 20u);
  EXPECT_EQ(full->refinement().budget(), 4294967295u);
  EXPECT_TRUE(full->refinement().require_proof());
  const auto empty = Parse(With("refinement", json::object()));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_TRUE(empty->has_refinement());
  const auto nulls = Parse(R"({"query": "q", "documents": "*", "refinement": {"documents": null, "budget": 7}})");
  ASSERT_TRUE(nulls.ok()) << nulls.status();
  EXPECT_EQ(nulls->refinement().documents(), 0u);
  EXPECT_EQ(nulls->refinement().budget(), 7u);
  EXPECT_FALSE(Parse(R"({"query": "q", "documents": "*", "refinement": null})")->has_refinement());

  EXPECT_THAT(ErrorOf(With("refinement", 7)), HasSubstr("refinement: is 7, not an object"));
  EXPECT_THAT(ErrorOf(With("refinement", {1, 2})), HasSubstr("refinement"));
  EXPECT_THAT(ErrorOf(With("refinement", {{"documents", -1}})),
              HasSubstr("refinement.documents: is -1; must be a whole number from 0 to 4294967295"));
  EXPECT_THAT(ErrorOf(With("refinement", {{"budget", 1.5}})), HasSubstr("refinement.budget: is 1.5"));
  EXPECT_THAT(ErrorOf(With("refinement", {{"documents", "many"}})), HasSubstr("refinement.documents: is \"many\""));
  EXPECT_THAT(ErrorOf(With("refinement", {{"require_proof", 1}})),
              HasSubstr("refinement.require_proof: is 1, not true or false"));
  EXPECT_THAT(ErrorOf(With("refinement", {{"depth", 1}})),
              HasSubstr("refinement.depth: is not a member (documents, budget and require_proof are)"));
  EXPECT_THAT(ErrorOf(R"({"query": "q", "documents": "*", "refinement": {"budget": 1, "budget": 2}})"),
              HasSubstr("refinement.budget: appears twice"));
  EXPECT_THAT(ErrorOf(With("refinement", {{"documents", {1}}})), HasSubstr("refinement.documents"));
}

TEST_F(RerankBodyTest, AFilterIsATextOrAnObject) {
  const auto text = Parse(With("filter", "lang = \"en\" and year >= 2020"));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->filter_text(), "lang = \"en\" and year >= 2020");
  const json tree = {{"and", {{{"field", "lang"}, {"in", {"en", "de"}}}, {{"not", {{"field", "year"}, {"gt", 2.5}}}}}}};
  const auto object = Parse(With("filter", tree));
  ASSERT_TRUE(object.ok()) << object.status();
  ASSERT_EQ(object->filter().all_of().filters_size(), 2);
  EXPECT_EQ(object->filter().all_of().filters(0).is_in().values(1).string_value(), "de");
  const v1::FilterRange& range = object->filter().all_of().filters(1).negation().range();
  EXPECT_EQ(range.low().value().number_value(), 2.5);
  EXPECT_TRUE(range.low().exclusive());
  EXPECT_EQ(Parse(With("filter", nullptr))->matching_case(), v1::RerankRequest::MATCHING_NOT_SET);
  json deep = {{"field", "a"}, {"exists", true}};
  for (int level = 1; level < 32; ++level) deep = {{"and", {deep}}};
  EXPECT_TRUE(Parse(With("filter", deep)).ok()) << Parse(With("filter", deep)).status();

  EXPECT_THAT(ErrorOf(With("filter", {{"and", {deep}}})), HasSubstr("filter: "));
  EXPECT_THAT(ErrorOf(With("filter", 7)), HasSubstr("filter: is 7, not an object, nor a text"));
  EXPECT_THAT(ErrorOf(With("filter", json::array({1}))), HasSubstr("filter: is [1], not an object, nor a text"));
  EXPECT_THAT(ErrorOf(With("filter", json::object())), HasSubstr("filter: the filter is empty"));
  EXPECT_THAT(ErrorOf(With("filter", {{"not", {{"field", 3}}}})), HasSubstr("filter: not.field: found an integer"));
  EXPECT_THAT(ErrorOf(R"({"query": "q", "documents": "*", "filter": "a = 1", "filter": "a = 1"})"),
              HasSubstr("filter: appears twice"));
}

TEST_F(RerankBodyTest, ATopNOutOfRangeIsToldTheRange) {
  const json huge = json::parse("123456789012345678901");  // a number longer than any integer
  for (const json& wrong : {json(-1), json(4294967296), json(UINT64_MAX), huge, json(2.5), json("3"), json(true)}) {
    EXPECT_EQ(ErrorOf(With("top_n", wrong)),
              absl::StrCat("top_n: is ", wrong.dump(), "; must be a whole number from 0 to 1000 (limits.max_top_k)"));
  }
}

TEST_F(RerankBodyTest, AllDocumentsComeBackWhereNoNumberIsAskedFor) {
  EXPECT_EQ(Parse(With("top_n", nullptr))->top_k(), 2u);
  EXPECT_EQ(Parse(With("top_n", 0))->top_k(), 2u);
  EXPECT_EQ(Parse(With("top_n", 1))->top_k(), 1u);
  EXPECT_EQ(Parse(With("top_n", 4294967295))->top_k(), 2u) << "there are no more";
  EXPECT_EQ(Parse(R"({"query": "q", "documents": ["a", "b"], "top_n": null})")->top_k(), 2u);
  const json many(std::vector<int>(5000, 1));
  EXPECT_EQ(Parse(With("documents", many))->top_k(), 1000u) << "limits.max_top_k";
  EXPECT_EQ(Parse(With("documents", "*"))->top_k(), 0u) << "limits.default_top_k of the whole collection";
}

TEST_F(RerankBodyTest, APageIsAnOffsetAndALeastScore) {
  const auto page = Parse(With("offset", 40));
  EXPECT_EQ(page->offset(), 40u);
  EXPECT_FALSE(page->has_min_score());
  EXPECT_EQ(Parse(With("min_score", -0.75))->min_score(), -0.75F);
  EXPECT_EQ(Parse(With("min_score", 3))->min_score(), 3.0F);
  EXPECT_FALSE(Parse(With("min_score", nullptr))->has_min_score());
  for (const json& wrong : {json(-1), json(4294967296), json(1.5), json("3"), json(true)}) {
    EXPECT_EQ(ErrorOf(With("offset", wrong)),
              absl::StrCat("offset: is ", wrong.dump(), "; must be a whole number from 0 to 1000 (limits.max_top_k)"));
  }
  EXPECT_EQ(ErrorOf(With("min_score", "3")), "min_score: is \"3\", not a number");
  EXPECT_EQ(ErrorOf(With("min_score", -1e39)), "min_score: is -1e+39; its magnitude must be at most 3.40282e+38");
  EXPECT_EQ(ErrorOf(With("score_threshold", 1e39)),
            "score_threshold: is 1e+39; its magnitude must be at most 3.40282e+38");
  EXPECT_EQ(ErrorOf(R"({"query": "q", "documents": "*", "min_score": 1, "score_threshold": 1})"),
            "score_threshold: appears twice");
  // Without top_n, all documents after the offset are returned, but at most 1,000 including the offset.
  const json many(std::vector<int>(5000, 1));
  json body = json::parse(With("documents", many));
  body["offset"] = 400;
  EXPECT_EQ(Parse(body.dump())->top_k(), 600u);
  body["offset"] = 1000;
  EXPECT_EQ(Parse(body.dump())->top_k(), 1000u) << "which the service refuses";
}

TEST_F(RerankBodyTest, ResultsMayComeInGroups) {
  const auto grouped = Parse(R"({"query": "q", "documents": "*", "group_by": "book", "group_size": 3})");
  EXPECT_EQ(grouped->group_by(), "book");
  EXPECT_EQ(grouped->group_size(), 3u);
  EXPECT_EQ(Parse(With("group_by", nullptr))->group_by(), "");
  EXPECT_EQ(ErrorOf(With("group_by", 3)), "group_by: is 3, not the name of a field");
  EXPECT_EQ(ErrorOf(With("group_size", "3")),
            "group_size: is \"3\"; must be a whole number from 0 to 1000 (limits.max_top_k)");
  // Without top_n, all groups are returned, but their documents are limited to 1,000.
  json body = json::parse(With("documents", json(std::vector<int>(5000, 1))));
  body["group_by"] = "book";
  body["group_size"] = 4;
  EXPECT_EQ(Parse(body.dump())->top_k(), 250u);
  body["offset"] = 100;
  EXPECT_EQ(Parse(body.dump())->top_k(), 150u);
}

}  // namespace
}  // namespace maxsim::http
