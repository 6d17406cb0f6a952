#include "server/http/rerank_json.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace maxsim::http {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr service::RequestLimits kLimits = {.max_query_tokens = 512, .max_top_k = 1000};

absl::StatusOr<v1::RerankRequest> Parse(const std::string& body) { return ParseRerankRequest(body, kLimits); }

std::string ErrorOf(const std::string& body) {
  const auto request = Parse(body);
  EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument) << body;
  return std::string(request.status().message());
}

// Returns a valid body with one member replaced. A null value takes the member out.
std::string With(const std::string& member, const json& value) {
  json body = {{"model", "c"}, {"query", {{0.5, 1}, {-1, 0}}}, {"documents", {"a", "b"}}};
  body[member] = value;
  if (value.is_null()) body.erase(member);
  return body.dump();
}

TEST(RerankJsonTest, NestedNumbersBecomeAnF32Matrix) {
  const auto request = Parse(With("top_n", 7));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->collection(), "c");
  EXPECT_EQ(request->top_k(), 7u);
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

TEST(RerankJsonTest, EncodedBytesAreTakenAsTheyAre) {
  const std::string bytes("\x00\x3c\x00\xc0", 4);
  const json query = {{"dtype", "f16"}, {"shape", {1, 2}}, {"data", absl::Base64Escape(bytes)}};
  const auto request = Parse(With("query", query));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->queries(0).tokens().dtype(), v1::DATA_TYPE_F16);
  EXPECT_EQ(request->queries(0).tokens().data(), bytes);
}

TEST(RerankJsonTest, IdsAreTextsIntegersOrTheWholeCollection) {
  const auto ints = Parse(With("documents", {1, -2, INT64_MAX}));
  ASSERT_TRUE(ints.ok()) << ints.status();
  EXPECT_THAT(ints->candidates().int_ids().ids(), ElementsAre(1, -2, INT64_MAX));
  EXPECT_TRUE(Parse(With("documents", "*"))->candidates().has_whole_collection());
  EXPECT_THAT(ErrorOf(With("documents", {"a", 1})),
              HasSubstr("documents[1]: is 1; ids must be all texts or all 64-bit integers"));
  EXPECT_THAT(ErrorOf(With("documents", {1, "a"})), HasSubstr("documents[1]"));
  EXPECT_THAT(ErrorOf(With("documents", {1.5})), HasSubstr("documents[0]: is 1.5"));
  EXPECT_THAT(ErrorOf(With("documents", {uint64_t{1} << 63})), HasSubstr("documents[0]: is 9223372036854775808"));
  EXPECT_THAT(ErrorOf(With("documents", json::array())), HasSubstr("documents: must be a list of ids"));
  EXPECT_THAT(ErrorOf(With("documents", "all")), HasSubstr("documents: must be"));
}

TEST(RerankJsonTest, WhatIsMissingOrUnknownIsNamed) {
  EXPECT_EQ(ErrorOf(With("model", nullptr)), "model: is missing");
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

TEST(RerankJsonTest, FieldsOfTheMessageAreToldTheirNameHere) {
  const std::string members = "(model, query, query_weights, documents, top_n, return_documents and request_id are)";
  EXPECT_EQ(ErrorOf(With("top_k", 3)), "top_k: is not a member " + members + "; HTTP's name for it is top_n");
  EXPECT_THAT(ErrorOf(With("collection", "c")), EndsWith("; HTTP's name for it is model"));
  EXPECT_THAT(ErrorOf(With("queries", 1)), EndsWith("; HTTP's name for it is query"));
  EXPECT_THAT(ErrorOf(With("candidates", 1)), EndsWith("; HTTP's name for it is documents"));
  EXPECT_THAT(ErrorOf(With("return_payloads", true)), EndsWith("; HTTP's name for it is return_documents"));
  EXPECT_EQ(ErrorOf(With("top", 3)), "top: is not a member " + members);
}

TEST(RerankJsonTest, MembersThatAppearTwiceAreRefused) {
  const std::string start = R"({"model": "c", "documents": "*", "query": )";
  EXPECT_TRUE(Parse(start + R"({"dtype": "f32", "shape": [1, 1], "data": "AAAAAA=="}})").ok());
  EXPECT_EQ(ErrorOf(start + R"([[1]], "model": "d"})"), "model: appears twice");
  EXPECT_EQ(ErrorOf(start + R"({"dtype": "f32", "shape": [1, 1], "data": "AAAAAA==", "shape": [1, 1]}})"),
            "query.shape: appears twice");
  EXPECT_EQ(ErrorOf(start + R"({"dtype": "f32", "shape": [1, 1], "data": "AAAAAA=="}, "query": [[1]]})"),
            "query: appears twice");
}

TEST(RerankJsonTest, DeepNestingIsRefusedBeforeAnythingWalksIt) {
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_THAT(ErrorOf(deep), HasSubstr("nested deeper than"));
  EXPECT_THAT(ErrorOf(std::string(100000, '[')), HasSubstr("nested deeper than"));
  EXPECT_THAT(ErrorOf("{\"model\": " + deep + ", \"query\": [[1]], \"documents\": \"*\"}"),
              HasSubstr("nested deeper than"));
}

TEST(RerankJsonTest, WrongMembersNameTheirValue) {
  EXPECT_THAT(ErrorOf(With("model", 3)), HasSubstr("model: is 3, not a text"));
  EXPECT_THAT(ErrorOf(With("return_documents", "yes")), HasSubstr("return_documents: is \"yes\""));
  EXPECT_THAT(ErrorOf(With("query", "text")), HasSubstr("query: is a text; this server takes token vectors"));
  EXPECT_THAT(ErrorOf(With("query", 7)), HasSubstr("query: must be a list of rows"));
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
                           "; it must be [tokens, dim]: 1 to 512 (limits.max_query_tokens), and the collection's "
                           "dimension"));
  }
  EXPECT_THAT(ErrorOf(encoded("data", "not base64!")), HasSubstr("query.data: is not base64"));
  EXPECT_THAT(ErrorOf(encoded("order", "C")), HasSubstr("query.order: is not a member"));
}

TEST(RerankJsonTest, ATopNOutOfRangeIsToldTheRange) {
  const json huge = json::parse("123456789012345678901");  // a number longer than any integer
  for (const json& wrong : {json(-1), json(4294967296), json(UINT64_MAX), huge, json(2.5), json("3"), json(true)}) {
    EXPECT_EQ(
        ErrorOf(With("top_n", wrong)),
        absl::StrCat("top_n: is ", wrong.dump(), ", and whole numbers from 0 to 1000 (limits.max_top_k) are accepted"));
  }
  EXPECT_EQ(Parse(With("top_n", 0))->top_k(), 0u);
  EXPECT_EQ(Parse(With("top_n", 4294967295))->top_k(), UINT32_MAX) << "which the service refuses";
}

TEST(RerankJsonTest, ResponsesHaveTheShapeClientsKnow) {
  v1::RerankResponse response;
  response.set_request_id("r");
  response.set_generation(3);
  v1::QueryResult& result = *response.add_results();
  for (const char* id : {"b", "a"}) result.mutable_string_ids()->add_ids(id);
  result.add_scores(2.5F);
  result.add_scores(1.5F);
  result.add_positions(1);
  result.add_positions(0);
  result.add_payloads("{\"title\": \"T\"}");
  result.add_payloads("");
  result.mutable_missing_string_ids()->add_ids("x");
  response.mutable_timings()->set_total_us(12.5);
  const json body = json::parse(FormatRerankResponse("c", response));
  EXPECT_EQ(body["id"], "r");
  EXPECT_EQ(body["model"], "c");
  EXPECT_EQ(body["generation"], 3);
  EXPECT_EQ(body["results"][0],
            (json{{"index", 1}, {"id", "b"}, {"relevance_score", 2.5}, {"document", {{"title", "T"}}}}));
  EXPECT_EQ(body["results"][1]["document"], json::object());
  const std::string odd = R"({"z":1,"n":12345678901234567890123,"e":1E5,"f":0.1000})";
  result.set_payloads(1, odd);
  EXPECT_THAT(FormatRerankResponse("c", response), HasSubstr(absl::StrCat("\"document\":", odd, "}"))) << "as stored";
  // None of these payloads may become a part of the answer, which would be no JSON, or that of whoever wrote the
  // payload.
  for (const std::string& no_object : {std::string("{\"no\": json"), std::string("{}\0,\"id\":\"x\"", 12),
                                       std::string("\xef\xbb\xbf{}"), std::string("[1]"), std::string("{} {}")}) {
    result.set_payloads(1, no_object);
    EXPECT_EQ(json::parse(FormatRerankResponse("c", response))["results"][1]["document"], no_object);
  }
  EXPECT_EQ(body["missing"], json({"x"}));
  EXPECT_EQ(body["timings"]["total_us"], 12.5);
  EXPECT_FALSE(body.contains("unavailable_documents"));
  response.mutable_results(0)->set_unavailable_documents(9);
  EXPECT_EQ(json::parse(FormatRerankResponse("c", response))["unavailable_documents"], 9);
}

TEST(RerankJsonTest, ThePagesAnswerIsWrittenAsTheServerWritesIt) {
  std::ifstream page("docs/use/http.md");
  ASSERT_TRUE(page) << "tests run in the repository's root";
  std::string line;
  while (std::getline(page, line) && line.rfind("{\"generation\":", 0) != 0) {
  }
  const json shown = json::parse(line, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(shown.is_object()) << line;
  v1::RerankResponse response;
  response.set_request_id(shown["id"].get<std::string>());
  response.set_generation(shown["generation"].get<uint64_t>());
  v1::QueryResult& result = *response.add_results();
  for (const json& entry : shown["results"]) {
    result.mutable_string_ids()->add_ids(entry["id"].get<std::string>());
    result.add_positions(entry["index"].get<uint64_t>());
    result.add_scores(entry["relevance_score"].get<float>());
  }
  for (const json& id : shown["missing"]) result.mutable_missing_string_ids()->add_ids(id.get<std::string>());
  v1::Timings& timings = *response.mutable_timings();
  timings.set_queue_us(shown["timings"]["queue_us"].get<double>());
  timings.set_copy_us(shown["timings"]["copy_us"].get<double>());
  timings.set_kernel_us(shown["timings"]["kernel_us"].get<double>());
  timings.set_total_us(shown["timings"]["total_us"].get<double>());
  EXPECT_EQ(line, FormatRerankResponse(shown["model"].get<std::string>(), response));
}

TEST(RerankJsonTest, ErrorsNameFieldsAsTheBodyDoes) {
  const auto message = [](const char* text) {
    const json body = json::parse(FormatServiceError(absl::InvalidArgumentError(text)));
    EXPECT_EQ(body["error"]["code"], "INVALID_ARGUMENT");
    return body["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(message("queries[0].tokens.dim: is 3"), "query.shape[1]: is 3");
  EXPECT_EQ(message("queries[0].tokens.data: holds nan"), "query.data: holds nan");
  EXPECT_EQ(message("candidates.string_ids.ids[3]: has 0 bytes"), "documents[3]: has 0 bytes");
  EXPECT_EQ(message("top_k: is 99999"), "top_n: is 99999");
  EXPECT_EQ(message("something else"), "something else");
}

TEST(RerankJsonTest, WhatTheBodyItselfNamesIsNotRenamed) {
  for (const char* text : {"top_k: is not a member", "collection: is not a member",
                           "queries[0].tokens: is not a member", "candidates.int_ids: is not a member"}) {
    EXPECT_EQ(json::parse(FormatError(absl::InvalidArgumentError(text)))["error"]["message"], text);
  }
}

TEST(RerankJsonTest, CollectionsAreListed) {
  v1::CollectionInfo info;
  info.set_name("c");
  info.set_state(v1::COLLECTION_STATE_READY);
  info.set_generation(2);
  info.set_storage(v1::DATA_TYPE_F16);
  info.set_id_type(v1::ID_TYPE_INT64);
  const json body = json::parse(FormatCollections({info}));
  EXPECT_EQ(body["collections"][0]["name"], "c");
  EXPECT_EQ(body["collections"][0]["state"], "READY");
  EXPECT_EQ(body["collections"][0]["storage"], "f16");
  EXPECT_EQ(body["collections"][0]["id_type"], "int64");
}

}  // namespace
}  // namespace maxsim::http
