// Tests how the HTTP API reads the paths and bodies of calls that write and read documents, and how it writes their
// answers.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/error_details.h"
#include "nlohmann/json.hpp"
#include "server/http/documents/document_body.h"
#include "server/http/documents/document_json.h"
#include "server/http/documents/document_path.h"
#include "server/service/documents/document_write.h"

namespace maxsim::http {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(DocumentPathTest, NamesAndIdsArePercentDecoded) {
  const auto all = ParseDocumentPath("/v1/collections/docs/documents");
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->collection, "docs");
  EXPECT_EQ(all->id, "");
  const auto one = ParseDocumentPath("/v1/collections/a%2Eb/documents/x%2Fy%20%C3%A9");
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(one->collection, "a.b");
  EXPECT_EQ(one->id, "x/y \xc3\xa9");
}

TEST(DocumentPathTest, OtherPathsAreNone) {
  for (const char* path :
       {"/v1/collections", "/v1/collections/", "/v1/collections/docs", "/v1/collections//documents",
        "/v1/collections/docs/document", "/v1/collections/docs/documentsx", "/v1/collections/docs/documents/",
        "/v1/collections/docs/documents/a/b", "/v1/collections/docs/documents/%", "/v1/collections/docs/documents/%4",
        "/v1/collections/docs/documents/%zz", "/v1/collections/%f/documents", "/v2/collections/docs/documents"}) {
    EXPECT_FALSE(ParseDocumentPath(path).has_value()) << path;
  }
}

TEST(DocumentPathTest, TheMethodSaysWhichCallItIs) {
  const DocumentPath all{"docs", ""};
  const DocumentPath one{"docs", "a"};
  const DocumentPath get{"docs", "get"};
  EXPECT_EQ(FindDocumentCall("PUT", all), DocumentCall::kUpsert);
  EXPECT_EQ(FindDocumentCall("DELETE", all), DocumentCall::kDelete);
  EXPECT_EQ(FindDocumentCall("POST", all), std::nullopt);
  EXPECT_EQ(FindDocumentCall("GET", one), DocumentCall::kGetOne);
  EXPECT_EQ(FindDocumentCall("POST", one), std::nullopt);
  EXPECT_EQ(FindDocumentCall("GET", get), DocumentCall::kGetOne);
  EXPECT_EQ(FindDocumentCall("POST", get), DocumentCall::kGet);
  EXPECT_EQ(MethodsOf(all), "DELETE, PUT");
  EXPECT_EQ(MethodsOf(one), "GET, HEAD");
  EXPECT_EQ(MethodsOf(get), "GET, HEAD, POST");
}

std::string UpsertError(const std::string& body, const service::RequestLimits& limits = {}) {
  const absl::Status status = ParseUpsertBody(body, limits).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << body;
  return std::string(status.message());
}

TEST(UpsertBodyTest, DocumentsHaveIdsVectorsOrTextsPayloadsAndVersions) {
  const auto request = ParseUpsertBody(R"({"documents": [
      {"id": "a", "tokens": [[1, 2], [3, 4.5]], "payload": {"n": 1.50, "deep": [{"x": null}]}, "version": 7},
      {"text": "words", "version": 18446744073709551615, "id": -9},
      {"id": "c", "payload": null, "tokens": {"dtype": "f16", "shape": [1, 2], "data": "AAAAPA=="}}]})",
                                       {});
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_EQ(request->documents_size(), 3);
  const v1::Document& a = request->documents(0);
  EXPECT_EQ(a.string_id(), "a");
  EXPECT_EQ(a.tokens().num_tokens(), 2u);
  EXPECT_EQ(a.tokens().dim(), 2u);
  float last = 0;
  std::memcpy(&last, a.tokens().data().data() + 12, 4);
  EXPECT_EQ(last, 4.5F);
  EXPECT_EQ(a.payload(), R"({"n": 1.50, "deep": [{"x": null}]})");  // as it was sent
  EXPECT_EQ(a.version(), 7u);
  const v1::Document& b = request->documents(1);
  EXPECT_EQ(b.int_id(), -9);
  EXPECT_EQ(b.text(), "words");
  EXPECT_FALSE(b.has_tokens());
  EXPECT_EQ(b.version(), UINT64_MAX);
  EXPECT_EQ(request->documents(2).tokens().dtype(), v1::DATA_TYPE_F16);
  EXPECT_EQ(request->documents(2).payload(), "");
}

TEST(UpsertBodyTest, WhatIsWrongIsNamed) {
  EXPECT_EQ(UpsertError("[]"), "the body is not a JSON object");
  EXPECT_THAT(UpsertError("{"), HasSubstr("the body is not JSON: "));
  EXPECT_EQ(UpsertError("{}"), "documents: is missing");
  EXPECT_EQ(UpsertError(R"({"ids": []})"), "ids: is not a member (documents is)");
  EXPECT_EQ(UpsertError(R"({"documents": {}})"), "documents: is {}, not a list of documents");
  EXPECT_EQ(UpsertError(R"({"documents": [], "documents": []})"), "documents: appears twice");
  EXPECT_EQ(UpsertError(R"({"documents": ["a"]})"), "documents[0]: is \"a\", not an object with id and tokens");
  EXPECT_EQ(UpsertError(R"({"documents": [{"text": "t"}]})"), "documents[0].id: is missing");
  EXPECT_EQ(UpsertError(R"({"documents": [{"id": 1}]})"), "documents[0]: has neither tokens nor text");
  EXPECT_EQ(UpsertError(R"({"documents": [{"id": 1, "text": "t"}, {"id": 1, "id": 2}]})"),
            "documents[1].id: appears twice");
  EXPECT_EQ(UpsertError(R"({"documents": [{"id": 1.5}]})"), "documents[0].id: is 1.5, not a text or a 64-bit integer");
  EXPECT_EQ(UpsertError(R"({"documents": [{"id": 1, "title": "t"}]})"),
            "documents[0].title: is not a member (id, tokens, text, payload and version are)");
  EXPECT_EQ(UpsertError(R"({"documents": [{"id": 1, "payload": [1]}]})"),
            "documents[0].payload: is [1], not a JSON object");
  EXPECT_EQ(UpsertError(R"({"documents": [{"id": 1, "payload": "p"}]})"),
            "documents[0].payload: is \"p\", not a JSON object");
  EXPECT_EQ(UpsertError(R"({"documents": [{"id": 1, "version": -1}]})"),
            "documents[0].version: is -1, not a whole number from 0 to 2^64 - 1");
  EXPECT_EQ(UpsertError(R"({"documents": [{"id": 1, "text": true}]})"), "documents[0].text: is true, not a text");
  EXPECT_EQ(UpsertError(R"({"documents": [{"id": 1, "tokens": "x"}]})"),
            "documents[0].tokens: is \"x\"; must be a list of rows of numbers, or {dtype, shape, data}");
  EXPECT_EQ(UpsertError(R"({"documents": [{"id": 1, "tokens": [[1], [2]]}]})", {.max_document_tokens = 1}),
            "documents[0].tokens: has more than 1 rows (limits.max_document_tokens)");
}

TEST(UpsertBodyTest, DocumentsAreCountedAsTheyCome) {
  std::string body = "{\"documents\":[";
  for (int i = 0; i < service::kMaxUpsertDocuments; ++i) body += "{\"id\":1,\"text\":\"t\"},";
  EXPECT_TRUE(ParseUpsertBody(body.substr(0, body.size() - 1) + "]}", {}).ok());
  EXPECT_EQ(UpsertError(body + "{"), "documents: has more than 10000 documents");
}

TEST(UpsertBodyTest, ASignalEndsTheReading) {
  const std::string body = "{\"documents\":[{\"id\":1,\"text\":\"" + std::string(size_t{1} << 20, 'x') + "\"}]}";
  EXPECT_EQ(ParseUpsertBody(body, {}, [] { return absl::CancelledError("gone"); }).status(),
            absl::CancelledError("gone"));
}

TEST(IdsBodyTest, IdsAreAllTextsOrAllIntegers) {
  const auto strings = ParseDeleteBody(R"({"ids": ["a", "b"], "version": 5})");
  ASSERT_TRUE(strings.ok()) << strings.status();
  EXPECT_THAT(strings->string_ids().ids(), ElementsAre("a", "b"));
  EXPECT_EQ(strings->version(), 5u);
  const auto ints = ParseGetBody(R"({"return_tokens": true, "ids": [1, -2], "min_sequence": 3})");
  ASSERT_TRUE(ints.ok()) << ints.status();
  EXPECT_THAT(ints->int_ids().ids(), ElementsAre(1, -2));
  EXPECT_TRUE(ints->return_tokens());
  EXPECT_EQ(ints->min_sequence(), 3u);
}

TEST(IdsBodyTest, ADeleteMayHaveAFilterInsteadOfIds) {
  auto request = ParseDeleteBody(R"({"filter": "year < 2000", "version": 5, "min_sequence": 3})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->filter_text(), "year < 2000");
  EXPECT_EQ(request->version(), 5u);
  EXPECT_EQ(request->min_sequence(), 3u);
  request = ParseDeleteBody(R"({"filter": {"not": {"field": "lang", "exists": true}}})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->filter().negation().exists(), "lang");
  for (const auto& [body, message] : std::vector<std::pair<std::string, std::string>>{
           {R"({"filter": "a = 1", "ids": [1]})", "ids: is set, and so is filter; set only one of them"},
           {R"({"filter": null})", "ids: is missing"},
           {R"({})", "ids: is missing"},
           {R"({"version": 5, "min_sequence": 3})", "ids: is missing"},
           {R"({"filter": 3})", "filter: is 3, not an object, nor a text such as lang = \"en\" and year >= 2020"},
           {R"({"filter": "a = 1", "filter": "b = 1"})", "filter: appears twice"}}) {
    EXPECT_EQ(std::string(ParseDeleteBody(body).status().message()), message) << body;
  }
}

TEST(IdsBodyTest, WhatIsWrongIsNamed) {
  const auto refused = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(refused(ParseDeleteBody("{}").status()), "ids: is missing");
  EXPECT_EQ(refused(ParseDeleteBody(R"({"ids": []})").status()), "ids: is empty");
  EXPECT_EQ(refused(ParseDeleteBody(R"({"ids": null})").status()), "ids: is null, not a list of ids");
  EXPECT_EQ(refused(ParseDeleteBody(R"({"ids": "a"})").status()), "ids: is \"a\", not a list of ids");
  EXPECT_EQ(refused(ParseDeleteBody(R"({"ids": ["a", 1]})").status()),
            "ids[1]: is 1; ids must be all texts or all 64-bit integers");
  EXPECT_EQ(refused(ParseDeleteBody(R"({"ids": [1, "a"]})").status()),
            "ids[1]: is \"a\"; ids must be all texts or all 64-bit integers");
  EXPECT_EQ(refused(ParseDeleteBody(R"({"ids": [1], "return_tokens": true})").status()),
            "return_tokens: is not a member (ids, filter, version and min_sequence are)");
  EXPECT_EQ(refused(ParseGetBody(R"({"ids": [1], "version": 1})").status()),
            "version: is not a member (ids, return_tokens and min_sequence are)");
  EXPECT_EQ(refused(ParseGetBody(R"({"ids": [1], "return_tokens": 1})").status()),
            "return_tokens: is 1, not true or false");
  EXPECT_EQ(refused(ParseGetBody(R"({"ids": [1], "min_sequence": 1.5})").status()),
            "min_sequence: is 1.5, not a whole number from 0 to 2^64 - 1");
  std::string many = "{\"ids\":[0";
  for (int i = 0; i < service::kMaxGetIds; ++i) many += ",1";
  EXPECT_EQ(refused(ParseGetBody(many + "]}").status()), "ids: has more than 1000 ids");
}

TEST(DocumentJsonTest, WritesAreAnsweredOneByOne) {
  v1::UpsertResponse upsert;
  upsert.add_results()->set_outcome(v1::WRITE_OUTCOME_APPLIED);
  upsert.mutable_results(0)->set_sequence(4);
  upsert.add_results()->set_outcome(v1::WRITE_OUTCOME_STALE);
  upsert.set_sequence(4);
  upsert.set_encoded_tokens(9);
  EXPECT_EQ(json::parse(FormatWrites(upsert)),
            json::parse(R"({"results": [{"outcome": "applied", "sequence": 4}, {"outcome": "stale"}], "sequence": 4,
                            "usage": {"total_tokens": 9}})"));
  v1::DeleteResponse matching;
  matching.set_num_deleted(3);
  matching.set_num_missing(2);
  matching.set_num_stale(1);
  matching.set_has_more(true);
  matching.set_sequence(9);
  EXPECT_EQ(FormatWrites(matching), R"({"num_deleted":3,"num_missing":2,"num_stale":1,"has_more":true,"sequence":9})");
  v1::DeleteResponse deleted;
  deleted.add_results()->set_outcome(v1::WRITE_OUTCOME_NOT_FOUND);
  EXPECT_EQ(json::parse(FormatWrites(deleted)),
            json::parse(R"({"results": [{"outcome": "not_found"}], "sequence": 0})"));
}

TEST(DocumentJsonTest, DocumentsComeWithWhatTheyHave) {
  v1::GetResponse response;
  v1::StoredDocument& first = *response.add_documents();
  first.set_string_id("a\"b");
  first.set_num_tokens(1);
  first.set_payload(R"({"n": 1.50})");
  first.set_version(3);
  first.set_sequence(8);
  first.mutable_tokens()->set_dtype(v1::DATA_TYPE_I8);
  first.mutable_tokens()->set_num_tokens(1);
  first.mutable_tokens()->set_dim(2);
  first.mutable_tokens()->set_data(std::string("\x01\x7f", 2));
  first.set_scale(0.5F);
  response.add_documents()->set_int_id(-4);
  response.mutable_missing_string_ids()->add_ids("gone");
  response.set_generation(2);
  response.set_sequence(8);
  const absl::StatusOr<std::string> text = FormatDocuments(response);
  ASSERT_TRUE(text.ok());
  EXPECT_THAT(*text, HasSubstr(R"("payload":{"n": 1.50})"));
  EXPECT_EQ(json::parse(*text), json::parse(R"({"documents": [
      {"id": "a\"b", "num_tokens": 1, "payload": {"n": 1.5}, "version": 3, "sequence": 8, "scale": 0.5,
       "tokens": {"dtype": "i8", "shape": [1, 2], "data": "AX8="}},
      {"id": -4, "num_tokens": 0}], "missing": ["gone"], "generation": 2, "sequence": 8})"));
  EXPECT_EQ(json::parse(FormatDocument(response))["generation"], 2);
}

TEST(DocumentJsonTest, TheErrorOfADeleteSaysHowManyDocumentsItDeleted) {
  absl::Status status = absl::UnavailableError("group b: away");
  client::SetPartlyDeleted(7, status);
  EXPECT_EQ(json::parse(FormatDocumentError(status))["error"],
            json::parse(R"({"code": "UNAVAILABLE", "message": "group b: away", "num_deleted": 7,
                            "reason": "PARTLY_DELETED"})"));
}

TEST(DocumentJsonTest, ErrorsNameMembersOfTheBody) {
  const auto field = [](const char* path) {
    const json body = json::parse(FormatDocumentError(client::InvalidField(path, "is string_id: none")));
    EXPECT_EQ(body["message"], body["error"]["field"].get<std::string>() + ": is string_id: none");
    return body["error"]["field"].get<std::string>();
  };
  EXPECT_EQ(field("documents[2].string_id"), "documents[2].id");
  EXPECT_EQ(field("documents[2].int_id"), "documents[2].id");
  EXPECT_EQ(field("documents[2].tokens.dim"), "documents[2].tokens.shape[1]");
  EXPECT_EQ(field("documents[2].tokens.num_tokens"), "documents[2].tokens.shape[0]");
  EXPECT_EQ(field("documents[2].tokens.dtype"), "documents[2].tokens.dtype");
  EXPECT_EQ(field("documents[2].payload"), "documents[2].payload");
  EXPECT_EQ(field("string_ids.ids[7]"), "ids[7]");
  EXPECT_EQ(field("int_ids.ids"), "ids");
  EXPECT_EQ(field("int_ids"), "ids");
  EXPECT_EQ(field("collection"), "collection");
  EXPECT_EQ(json::parse(FormatDocumentError(absl::InternalError("string_ids: a fault")))["message"],
            "string_ids: a fault");
}

}  // namespace
}  // namespace maxsim::http
