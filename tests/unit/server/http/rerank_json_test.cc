#include "server/http/rerank/rerank_json.h"

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/service/call/status.h"

namespace maxsim::http {
namespace {

using nlohmann::json;
using testing::HasSubstr;

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
  const json body = json::parse(FormatRerankResponse({.model = "c"}, response));
  EXPECT_EQ(body["id"], "r");
  EXPECT_EQ(body["model"], "c");
  EXPECT_EQ(body["generation"], 3);
  EXPECT_EQ(body["results"][0],
            (json{{"index", 1}, {"id", "b"}, {"relevance_score", 2.5}, {"document", {{"title", "T"}}}}));
  EXPECT_EQ(body["results"][1]["document"], json::object());
  for (const char* value : {"", "a \"group\""}) result.add_group_values(value);
  const json grouped = json::parse(FormatRerankResponse({.model = "c"}, response));
  EXPECT_EQ(grouped["results"][0]["group"], "");
  EXPECT_EQ(grouped["results"][1]["group"], "a \"group\"");
  result.clear_group_values();
  const std::string odd = R"({"z":1,"n":12345678901234567890123,"e":1E5,"f":0.1000})";
  result.set_payloads(1, odd);
  EXPECT_THAT(FormatRerankResponse({.model = "c"}, response), HasSubstr(absl::StrCat("\"document\":", odd, "}")))
      << "as stored";
  // These payloads are no JSON objects, so the answer must have them as strings. Copied as JSON, they would make the
  // answer invalid, or let the payload's author add members to it.
  for (const std::string& no_object : {std::string("{\"no\": json"), std::string("{}\0,\"id\":\"x\"", 12),
                                       std::string("\xef\xbb\xbf{}"), std::string("[1]"), std::string("{} {}")}) {
    result.set_payloads(1, no_object);
    EXPECT_EQ(json::parse(FormatRerankResponse({.model = "c"}, response))["results"][1]["document"], no_object);
  }
  EXPECT_EQ(body["missing"], json({"x"}));
  EXPECT_EQ(body["timings"]["total_us"], 12.5);
  EXPECT_FALSE(body.contains("unavailable_documents"));
  response.mutable_results(0)->set_unavailable_documents(9);
  EXPECT_EQ(json::parse(FormatRerankResponse({.model = "c"}, response))["unavailable_documents"], 9);
  EXPECT_FALSE(body.contains("unavailable_groups"));
  response.add_unavailable_groups("g1");
  response.add_unavailable_groups("g2");
  EXPECT_EQ(json::parse(FormatRerankResponse({.model = "c"}, response))["unavailable_groups"], json({"g1", "g2"}));
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
  timings.set_encode_us(shown["timings"]["encode_us"].get<double>());
  timings.set_queue_us(shown["timings"]["queue_us"].get<double>());
  timings.set_copy_us(shown["timings"]["copy_us"].get<double>());
  timings.set_kernel_us(shown["timings"]["kernel_us"].get<double>());
  timings.set_total_us(shown["timings"]["total_us"].get<double>());
  EXPECT_EQ(line, FormatRerankResponse({.model = shown["model"]}, response));
}

v1::RerankResponse TwoInlineResults() {
  v1::RerankResponse response;
  response.set_encoded_tokens(9);
  v1::QueryResult& result = *response.add_results();
  for (const uint64_t position : {1, 0}) {
    result.add_positions(position);
    result.add_scores(static_cast<float>(position) + 0.5F);
  }
  return response;
}

TEST(RerankJsonTest, DocumentsThatTheBodyCarriesComeBackInTheShapeOfTheService) {
  AnswerForm form = {.model = "m",
                     .carried = {{.text = "a"}, {.id = "7", .object = R"({"text":"b","n":1E2})", .text = "b"}}};
  const json results = json::parse(FormatRerankResponse(form, TwoInlineResults()));
  EXPECT_EQ(results["usage"]["total_tokens"], 9);
  EXPECT_EQ(results["results"][0],
            json::parse(R"({"index":1,"relevance_score":1.5,"id":7,"document":{"text":"b","n":1E2}})"));
  EXPECT_EQ(results["results"][1], json::parse(R"({"index":0,"relevance_score":0.5,"document":{"text":"a"}})"));
  form.shape = AnswerShape::kData;
  const json data = json::parse(FormatRerankResponse(form, TwoInlineResults()));
  EXPECT_EQ(data["object"], "list");
  EXPECT_FALSE(data.contains("results"));
  EXPECT_EQ(data["data"][0], json::parse(R"({"index":1,"relevance_score":1.5,"id":7,"document":"b"})"));
  form.shape = AnswerShape::kList;
  EXPECT_EQ(json::parse(FormatRerankResponse(form, TwoInlineResults())),
            json::parse(R"([{"index":1,"score":1.5,"id":7,"text":"b"},{"index":0,"score":0.5,"text":"a"}])"));
  form.carried = {};
  EXPECT_EQ(json::parse(FormatRerankResponse(form, TwoInlineResults())),
            json::parse(R"([{"index":1,"score":1.5},{"index":0,"score":0.5}])"));
}

TEST(RerankJsonTest, ClientsFindTheirBillAndTheirShape) {
  AnswerForm form = {.model = "m", .api = RerankApi::kV2, .carried = {{.text = "a"}, {.text = "b"}}};
  const json v2 = json::parse(FormatRerankResponse(form, TwoInlineResults()));
  EXPECT_EQ(v2["meta"], json::parse(R"({"api_version":{"version":"2"},"billed_units":{"search_units":1},
                                        "tokens":{"input_tokens":9,"output_tokens":0}})"));
  EXPECT_EQ(v2["usage"]["prompt_tokens"], 9);
  form.api = RerankApi::kInfinity;
  EXPECT_EQ(json::parse(FormatRerankResponse(form, TwoInlineResults()))["results"][0]["document"], "b");
  form.shape = AnswerShape::kRankings;
  form.carried = {};
  EXPECT_EQ(json::parse(FormatRerankResponse(form, TwoInlineResults()))["rankings"],
            json::parse(R"([{"index":1,"logit":1.5},{"index":0,"logit":0.5}])"));
}

TEST(RerankJsonTest, InfinitysClientsGetStringsForStoredDocumentsToo) {
  v1::RerankResponse response;
  v1::QueryResult& result = *response.add_results();
  for (const char* payload : {R"({"title":"A"})", ""}) {
    result.add_positions(static_cast<uint32_t>(result.positions_size()));
    result.add_scores(1);
    result.add_payloads(payload);
  }
  AnswerForm form = {.model = "m", .api = RerankApi::kInfinity};
  const json results = json::parse(FormatRerankResponse(form, response))["results"];
  EXPECT_EQ(results[0]["document"], R"({"title":"A"})");
  EXPECT_EQ(results[1]["document"], "{}");
  form.api = RerankApi::kTei;
  EXPECT_EQ(json::parse(FormatRerankResponse(form, response))["results"][0]["document"]["title"], "A");
}

TEST(RerankJsonTest, AScanIsDescribed) {
  v1::RerankResponse response;
  v1::QueryResult& result = *response.add_results();
  EXPECT_FALSE(json::parse(FormatRerankResponse({.model = "c"}, response)).contains("refinement"));
  v1::Refinement& refinement = *result.mutable_refinement();
  refinement.set_planes(4);
  refinement.set_documents(1200);
  refinement.set_certificate(v1::CERTIFICATE_PROVEN);
  EXPECT_EQ(json::parse(FormatRerankResponse({.model = "c"}, response))["refinement"],
            (json{{"planes", 4}, {"documents", 1200}, {"certificate", "PROVEN"}, {"margin", 0}}));
  refinement.set_certificate(v1::CERTIFICATE_NOT_PROVEN);
  refinement.set_outside_score(1.5F);
  refinement.set_margin(-0.5F);
  EXPECT_EQ(json::parse(FormatRerankResponse({.model = "c"}, response))["refinement"],
            (json{{"planes", 4},
                  {"documents", 1200},
                  {"certificate", "NOT_PROVEN"},
                  {"margin", -0.5},
                  {"outside_score", 1.5},
                  {"outside_is_bound", false}}));
}

TEST(RerankJsonTest, AlignmentsNameTheTokensOfAText) {
  v1::RerankResponse response = TwoInlineResults();
  v1::QueryResult& result = *response.mutable_results(0);
  for (const char* piece : {"what", "##ever"}) result.add_query_tokens(piece);
  for (int i = 0; i < 2; ++i) {
    v1::Alignment& alignment = *result.add_alignments();
    alignment.add_document_tokens(4);
    alignment.add_similarities(0.25F);
  }
  const json body = json::parse(FormatRerankResponse({.model = "m"}, response));
  EXPECT_EQ(body["query_tokens"], json({"what", "##ever"}));
  EXPECT_EQ(body["results"][1]["alignment"], json::parse(R"({"document_tokens":[4],"similarities":[0.25]})"));
}

TEST(RerankJsonTest, ErrorsNameFieldsAsTheBodyDoes) {
  const auto field = [](const char* path) {
    const json body = json::parse(FormatServiceError(service::InvalidField(path, "is top_k: 3")));
    const std::string named = body["error"]["field"];
    EXPECT_EQ(body["error"]["code"], "INVALID_ARGUMENT");
    EXPECT_EQ(body["error"]["reason"], "INVALID_FIELD");
    EXPECT_EQ(body["error"]["message"], named + ": is top_k: 3");
    EXPECT_EQ(body["message"], body["error"]["message"]);
    EXPECT_EQ(body["detail"], body["error"]["message"]);
    return named;
  };
  EXPECT_EQ(field("queries[0].tokens.num_tokens"), "query.shape[0]");
  EXPECT_EQ(field("queries[0].tokens.dim"), "query.shape[1]");
  EXPECT_EQ(field("queries[0].tokens.data"), "query.data");
  EXPECT_EQ(field("candidates"), "documents");
  EXPECT_EQ(field("candidates.string_ids"), "documents");
  EXPECT_EQ(field("candidates.string_ids.ids[3]"), "documents[3]");
  EXPECT_EQ(field("candidates.inline_documents.documents[2].data"), "documents[2].data");
  EXPECT_EQ(field("candidates.inline_documents.texts[1]"), "documents[1]");
  EXPECT_EQ(field("inline_documents.texts"), "documents");
  EXPECT_EQ(field("queries[0].text"), "query");
  EXPECT_EQ(field("queries[0].weights[2]"), "query_weights[2]");
  EXPECT_EQ(field("top_k"), "top_n");
  EXPECT_EQ(field("top_k_more"), "top_k_more");
  const json plain = json::parse(FormatServiceError(absl::InvalidArgumentError("top_k: has no field")));
  EXPECT_EQ(plain["error"], json::parse(R"({"code": "INVALID_ARGUMENT", "message": "top_k: has no field"})"));
}

TEST(RerankJsonTest, AnErrorSaysWhichLimitWasPassedAndHidesFolders) {
  const json limited = json::parse(FormatError(service::InvalidField("top_n", "is 65", {64, 65, "limits.max_top_k"})));
  EXPECT_EQ(limited["error"], json::parse(R"({"code": "INVALID_ARGUMENT", "message": "top_n: is 65", "field": "top_n",
                                              "reason": "LIMIT_EXCEEDED", "limit": 64,
                                              "limit_key": "limits.max_top_k"})"));
  const json denied = json::parse(FormatServiceError(service::FieldError(
      absl::StatusCode::kPermissionDenied, "OUTSIDE_ALLOWED_ROOTS", "collection", "/srv/x is not under /srv/y")));
  EXPECT_EQ(denied["error"]["message"], "model: x is not under y");
}

TEST(RerankJsonTest, WhatTheBodyItselfNamesIsNotRenamed) {
  for (const char* name : {"top_k", "collection", "queries[0].tokens", "candidates.int_ids"}) {
    const json body = json::parse(FormatError(service::InvalidField(name, "is not a member")));
    EXPECT_EQ(body["error"]["message"], std::string(name) + ": is not a member");
  }
}

TEST(RerankJsonTest, CollectionsAreListed) {
  v1::CollectionInfo info;
  info.set_name("c");
  info.set_state(v1::COLLECTION_STATE_READY);
  info.set_generation(2);
  info.set_storage(v1::DATA_TYPE_F16);
  info.set_id_type(v1::ID_TYPE_INT64);
  const json body = json::parse(FormatCollections({info}, nullptr));
  EXPECT_EQ(body["collections"][0]["name"], "c");
  EXPECT_EQ(body["collections"][0]["state"], "READY");
  EXPECT_EQ(body["collections"][0]["storage"], "f16");
  EXPECT_EQ(body["collections"][0]["id_type"], "int64");
  EXPECT_FALSE(body.contains("encoder"));
  EXPECT_FALSE(body["collections"][0].contains("encoder"));
  EXPECT_FALSE(body["collections"][0].contains("fields"));
  info.mutable_encoder()->set_model("a");
  v1::FieldDeclaration& field = *info.add_fields();
  field.set_name("lang");
  field.set_kind(v1::FIELD_KIND_KEYWORD);
  field.set_path("meta.lang");
  v1::EncoderInfo encoder;
  encoder.set_model("b");
  encoder.set_dim(128);
  const json both = json::parse(FormatCollections({info}, &encoder));
  EXPECT_EQ(both["encoder"], json({{"model", "b"}, {"fingerprint", ""}, {"dim", 128}}));
  EXPECT_EQ(both["collections"][0]["encoder"]["model"], "a");
  EXPECT_EQ(both["collections"][0]["fields"],
            json::parse(R"([{"name": "lang", "kind": "keyword", "path": "meta.lang"}])"));
}

TEST(RerankJsonTest, CollectionsSayWhetherTheyAreLiveAndWhyNothingCanBeWritten) {
  v1::CollectionInfo info;
  info.set_name("c");
  info.set_state(v1::COLLECTION_STATE_READY);
  info.set_generation(1);
  info.set_storage(v1::DATA_TYPE_F16);
  EXPECT_FALSE(json::parse(FormatCollections({info}, nullptr))["collections"][0].contains("live"));
  v1::LiveInfo& live = *info.mutable_live();
  live.set_sequence(uint64_t{1} << 60);
  live.set_compacted_sequence(40);
  live.set_num_changed_documents(30);
  live.set_num_deleted_documents(20);
  live.set_num_segments(2);
  live.set_segment_bytes(4096);
  live.set_segment_used_bytes(1024);
  live.set_log_bytes(9000);
  live.set_log("nats");
  live.set_lag(17);
  json expected = {{"sequence", uint64_t{1} << 60},
                   {"compacted_sequence", 40},
                   {"num_changed_documents", 30},
                   {"num_deleted_documents", 20},
                   {"num_segments", 2},
                   {"segment_bytes", 4096},
                   {"segment_used_bytes", 1024},
                   {"log_bytes", 9000},
                   {"is_compacting", false},
                   {"log", "nats"},
                   {"lag", 17}};
  EXPECT_EQ(json::parse(FormatCollections({info}, nullptr))["collections"][0]["live"], expected);
  live.set_error("the disk is full");
  expected["error"] = "the disk is full";
  live.mutable_layout()->set_revision(7);
  v1::SlotOwner& owner = *live.mutable_layout()->add_owners();
  owner.set_group("g0");
  owner.mutable_slots()->set_end_slot(4096);
  expected["layout"]["revision"] = 7;
  expected["layout"]["owners"][0] = {{"group", "g0"}, {"slots", {{"first_slot", 0}, {"end_slot", 4096}}}};
  EXPECT_EQ(json::parse(FormatCollections({info}, nullptr))["collections"][0]["live"], expected);
}

}  // namespace
}  // namespace maxsim::http
