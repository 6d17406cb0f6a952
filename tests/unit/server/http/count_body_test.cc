// Tests how the HTTP API reads the bodies of calls that count and list documents, and how it writes their answers.
#include "server/http/documents/count_body.h"

#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/error_details.h"
#include "server/http/documents/document_json.h"

namespace maxsim::http {
namespace {

using testing::HasSubstr;

std::string CountError(const std::string& body) {
  const absl::Status status = ParseCountBody(body).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << body;
  return std::string(status.message());
}

std::string FacetsError(const std::string& body) {
  const absl::Status status = ParseFacetsBody(body).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << body;
  return std::string(status.message());
}

TEST(CountBodyTest, AFilterIsATextOrAnObject) {
  auto request = ParseCountBody(R"({"filter": "lang = \"en\"", "collection": "docs", "min_sequence": 7})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->collection(), "docs");
  EXPECT_EQ(request->filter_text(), "lang = \"en\"");
  EXPECT_EQ(request->min_sequence(), 7u);
  request = ParseCountBody(R"({"collection": "docs", "filter": {"not": {"field": "lang", "exists": true}}})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->filter().negation().exists(), "lang");
  request = ParseCountBody(R"({"collection": "docs", "filter": null, "min_sequence": null})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->matching_case(), v1::CountRequest::MATCHING_NOT_SET);
}

TEST(CountBodyTest, FacetsHaveAFieldAndALimit) {
  auto request = ParseFacetsBody(R"({"collection": "docs", "field": "lang", "limit": 65536, "filter": "a = 1"})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->field(), "lang");
  EXPECT_EQ(request->limit(), 65'536u);
  EXPECT_EQ(request->filter_text(), "a = 1");
}

TEST(CountBodyTest, WhatIsWrongIsNamed) {
  EXPECT_EQ(CountError("[]"), "the body is not a JSON object");
  EXPECT_EQ(CountError("{}"), "collection: is missing");
  EXPECT_EQ(CountError(R"({"collection": null})"), "collection: is null, not a text");
  EXPECT_EQ(CountError(R"({"collection": ["docs"]})"), "collection: is [\"docs\"], not a text");
  EXPECT_EQ(CountError(R"({"collection": "a", "collection": "b"})"), "collection: appears twice");
  EXPECT_EQ(CountError(R"({"collection": "a", "field": "b"})"),
            "field: is not a member (collection, filter and min_sequence are)");
  EXPECT_EQ(CountError(R"({"collection": "a", "filter": 3})"),
            "filter: is 3, not an object, nor a text such as lang = \"en\" and year >= 2020");
  EXPECT_THAT(CountError(R"({"collection": "a", "filter": {"field": "b"}})"), HasSubstr("filter: "));
  EXPECT_EQ(CountError(R"({"collection": "a", "min_sequence": -1})"),
            "min_sequence: is -1, not a whole number from 0 to 2^64 - 1");
  EXPECT_EQ(FacetsError(R"({"collection": "a"})"), "field: is missing");
  EXPECT_EQ(FacetsError(R"({"field": "a"})"), "collection: is missing");
  EXPECT_EQ(FacetsError(R"({"collection": "a", "field": true})"), "field: is true, not a text");
  EXPECT_EQ(FacetsError(R"({"collection": "a", "field": "b", "limit": 1.5})"),
            "limit: is 1.5, not a whole number from 0 to 2^64 - 1");
  EXPECT_EQ(FacetsError(R"({"collection": "a", "field": "b", "limit": 4294967306})"),
            "limit: is 4294967306; must be at most 65536");
  EXPECT_EQ(FacetsError(R"({"collection": "a", "field": "b", "top_k": 1})"),
            "top_k: is not a member (collection, field, filter, limit and min_sequence are)");
}

TEST(ScrollBodyTest, EveryMemberMayBeLeftOut) {
  auto request = ParseScrollBody("{}");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->ByteSizeLong(), 0u);
  request = ParseScrollBody(R"({"filter": "a = 1", "after": "x", "limit": 1000, "return_payloads": true,)"
                            R"("return_tokens": false, "min_sequence": 7})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->filter_text(), "a = 1");
  EXPECT_EQ(request->after_string_id(), "x");
  EXPECT_EQ(request->limit(), 1000u);
  EXPECT_TRUE(request->return_payloads());
  EXPECT_FALSE(request->return_tokens());
  EXPECT_EQ(request->min_sequence(), 7u);
  request =
      ParseScrollBody(R"({"after": -9223372036854775808, "limit": null, "filter": {"field": "a", "exists": true}})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->after_int_id(), INT64_MIN);
  EXPECT_EQ(request->filter().exists(), "a");
}

TEST(ScrollBodyTest, WhatIsWrongIsNamed) {
  const auto error_of = [](const std::string& body) {
    const absl::Status status = ParseScrollBody(body).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << body;
    return std::string(status.message());
  };
  EXPECT_EQ(error_of("3"), "the body is not a JSON object");
  EXPECT_EQ(error_of(R"({"collection": "a"})"),
            "collection: is not a member (filter, after, limit, return_payloads, return_tokens and min_sequence are)");
  EXPECT_EQ(error_of(R"({"after": 1.5})"), "after: is 1.5, not a text or a 64-bit integer");
  EXPECT_EQ(error_of(R"({"after": 9223372036854775808})"),
            "after: is 9223372036854775808, not a text or a 64-bit integer");
  EXPECT_EQ(error_of(R"({"after": ["a"]})"), "after: is [\"a\"], not a text or a 64-bit integer");
  EXPECT_EQ(error_of(R"({"limit": 1001})"), "limit: is 1001; must be at most 1000");
  EXPECT_EQ(error_of(R"({"limit": "a"})"), "limit: is \"a\", not a whole number from 0 to 2^64 - 1");
  EXPECT_EQ(error_of(R"({"return_payloads": 1})"), "return_payloads: is 1, not true or false");
  EXPECT_EQ(error_of(R"({"limit": true})"), "limit: is true, not a whole number from 0 to 2^64 - 1");
  EXPECT_EQ(error_of(R"({"return_tokens": null, "return_tokens": true})"), "return_tokens: appears twice");
}

TEST(ScrollJsonTest, APageIsAnObject) {
  v1::ScrollResponse page;
  EXPECT_EQ(*FormatPage(page), R"({"documents":[],"has_more":false,"generation":0,"sequence":0})");
  v1::StoredDocument& document = *page.add_documents();
  document.set_string_id("a\"b");
  document.set_num_tokens(3);
  document.set_payload(R"({"n": 1})");
  page.set_has_more(true);
  page.set_sequence(4);
  EXPECT_EQ(*FormatPage(page), R"({"documents":[{"id":"a\"b","num_tokens":3,"payload":{"n": 1}}],)"
                               R"("has_more":true,"generation":0,"sequence":4})");
  EXPECT_THAT(FormatDocumentError(client::InvalidField("after_int_id", "is wrong")), HasSubstr("\"field\":\"after\""));
}

TEST(CountJsonTest, AnswersAreObjects) {
  v1::CountResponse count;
  count.set_count(12);
  count.set_generation(3);
  EXPECT_EQ(FormatCount(count), R"({"count":12,"generation":3,"sequence":0})");
  v1::FacetsResponse facets;
  EXPECT_EQ(FormatFacets(facets), R"({"values":[],"num_values":0,"num_documents":0,"generation":0,"sequence":0})");
  facets.set_num_values(9);
  facets.set_num_documents(20);
  facets.set_sequence(4);
  for (const char* value : {"e\"n", ""}) {
    facets.add_values()->set_value(value);
    facets.mutable_values(facets.values_size() - 1)->set_count(2);
  }
  EXPECT_EQ(FormatFacets(facets), R"({"values":[{"value":"e\"n","count":2},{"value":"","count":2}],)"
                                  R"("num_values":9,"num_documents":20,"generation":0,"sequence":4})");
}

TEST(CountJsonTest, ErrorsNameTheFilterAsTheBodyDoes) {
  EXPECT_THAT(FormatDocumentError(client::InvalidField("filter_text", "is wrong")), HasSubstr("\"field\":\"filter\""));
}

}  // namespace
}  // namespace maxsim::http
