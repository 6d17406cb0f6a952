// The JSON form of filters.
#include "collection/filters/filter_json.h"

#include <string>

#include "collection/filters/filter_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/random_filters.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

std::string JsonError(std::string_view json) {
  const auto filter = ParseFilterJson(json);
  if (filter.ok()) return "(accepted)";
  EXPECT_TRUE(absl::IsInvalidArgument(filter.status()));
  return std::string(filter.status().message());
}

TEST(FilterJsonTest, EveryNodeIsParsed) {
  const auto filter = ParseFilterJson(
      R"({"and": [{"field": "lang", "equals": "en"}, {"gte": 2020, "field": "year", "lt": 2026.5},)"
      R"( {"not": {"or": [{"field": "tags", "in": ["a", true, 1]}, {"field": "hidden", "exists": true}]}}]})");
  ASSERT_TRUE(filter.ok()) << filter.status();
  EXPECT_EQ(
      *filter,
      Filter::And({Filter::Equals("lang", "en"),
                   Filter::Range("year", FilterBound{int64_t{2020}, true}, FilterBound{2026.5, false}),
                   Filter::Not(Filter::Or({Filter::In("tags", {"a", true, int64_t{1}}), Filter::Exists("hidden")}))}));
  EXPECT_EQ(FormatFilterJson(*filter),
            R"({"and":[{"field":"lang","equals":"en"},{"field":"year","gte":2020,"lt":2026.5},)"
            R"({"not":{"or":[{"field":"tags","in":["a",true,1]},{"field":"hidden","exists":true}]}}]})");
}

TEST(FilterJsonTest, RandomFiltersReturn) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  RandomFilters random(seed);
  for (int round = 0; round < (test::kSanitized ? 300 : 2000); ++round) {
    const Filter filter = random.Tree(1 + round % 6);
    const auto parsed = ParseFilterJson(FormatFilterJson(filter));
    ASSERT_TRUE(parsed.ok()) << parsed.status() << FormatFilterJson(filter);
    ASSERT_EQ(*parsed, filter) << FormatFilterJson(filter);
  }
}

TEST(FilterJsonTest, SlotsArePrintedAndNotParsed) {
  const std::string json = FormatFilterJson(Filter::Not(Filter::InSlots({0, 1365})));
  EXPECT_EQ(json, R"({"not":{"in_slots":"0-1364"}})");
  EXPECT_THAT(JsonError(json), HasSubstr("key \"in_slots\", expected and, or, not, or field with equals"));
}

TEST(FilterJsonTest, ErrorsNamePlaceWhatWasFoundAndWhatIsExpected) {
  EXPECT_THAT(JsonError("[]"), HasSubstr("found an array, expected an object"));
  EXPECT_THAT(JsonError("\"lang = 1\""), HasSubstr("expected an object"));
  EXPECT_THAT(JsonError("1"), HasSubstr("expected an object"));
  EXPECT_THAT(JsonError("{}"), HasSubstr("the filter is empty, expected and, or, not, or field with equals"));
  EXPECT_EQ(JsonError(R"({"and": {}})"), "and: found an object, expected an array of objects");
  EXPECT_EQ(JsonError(R"({"and": [1]})"), "and[0]: found an integer, expected an object");
  EXPECT_EQ(JsonError(R"({"and": [[]]})"), "and[0]: found an array, expected an object");
  EXPECT_EQ(JsonError(R"({"and": []})"), "and: has no filter; must have at least one");
  EXPECT_EQ(JsonError(R"({"not": []})"), "not: found an array, expected an object");
  EXPECT_EQ(JsonError(R"({"and": [{"field":"a","exists":true}, {"not": {"field": 5}}]})"),
            "and[1].not.field: found an integer, expected a string");
  EXPECT_EQ(JsonError(R"({"field": "a", "exists": false})"), "exists: found false, expected true");
  EXPECT_EQ(JsonError(R"({"field": "a", "exists": 1})"), "exists: found an integer, expected true");
  EXPECT_EQ(JsonError(R"({"field": "a", "equals": null})"),
            "equals: found null, expected a string, a number, true or false");
  EXPECT_EQ(JsonError(R"({"field": "a", "equals": [1]})"),
            "equals: found an array, expected a string, a number, true or false");
  EXPECT_EQ(JsonError(R"({"field": "a", "in": 1})"), "in: found an integer, expected an array of values");
  EXPECT_EQ(JsonError(R"({"field": "a", "in": [1, {}]})"),
            "in[1]: found an object, expected a string, a number, true or false");
  EXPECT_EQ(JsonError(R"({"field": "a", "in": []})"), "field \"a\": has 0 values, expected at least one");
  EXPECT_EQ(JsonError(R"({"field": "a", "gt": 1, "gte": 1})"), "gte: gt and gte exclude each other");
  EXPECT_EQ(JsonError(R"({"field": "a", "equals": 1, "lt": 1})"),
            "equals: key \"lt\" beside others that say what the filter is");
  EXPECT_EQ(JsonError(R"({"equals": 1})"), "key \"field\" is missing");
  EXPECT_EQ(JsonError(R"({"field": "a"})"),
            "the filter is empty, expected and, or, not, or field with equals, in, gt, gte, lt, lte or exists");
  EXPECT_EQ(JsonError(R"({"field": "a", "not": {"field": "b", "exists": true}})"),
            "key \"field\" beside and, or or not");
  EXPECT_EQ(JsonError(R"({"field": "a", "field": "b", "exists": true})"), "field: key \"field\" appears twice");
  EXPECT_THAT(JsonError(R"({"must": []})"), HasSubstr("key \"must\", expected and, or, not, or field with"));
  EXPECT_THAT(JsonError(R"({"field": "a b", "exists": true})"), HasSubstr("\"a b\" must be 1 to 64 characters of"));
  EXPECT_THAT(JsonError("{\"field\""), HasSubstr("malformed JSON"));
}

TEST(FilterJsonTest, DepthAndSizeAreBounded) {
  const auto nested = [](int depth) {
    std::string json;
    for (int level = 1; level < depth; ++level) json += "{\"not\":";
    return json + R"({"field":"a","exists":true})" + std::string(static_cast<size_t>(depth - 1), '}');
  };
  EXPECT_EQ(JsonError(nested(kMaxFilterDepth)), "(accepted)");
  EXPECT_EQ(JsonError(nested(kMaxFilterDepth + 1)), "the filter is nested deeper than 32 levels");
  EXPECT_THAT(JsonError(nested(100'000)), HasSubstr("nested deeper than"));
  std::string children;
  for (size_t idx = 1; idx < kMaxFilterNodes; ++idx) children += R"({"field":"a","exists":true},)";
  children.pop_back();
  EXPECT_EQ(JsonError("{\"or\":[" + children + "]}"), "(accepted)");
  EXPECT_EQ(JsonError("{\"or\":[" + children + R"(,{"field":"a","exists":true}]})"),
            "the filter has more than 1024 nodes");
  std::string values = "1";
  for (size_t idx = 1; idx < kMaxFilterValues; ++idx) values += ",1";
  EXPECT_EQ(JsonError(R"({"field":"a","in":[)" + values + "]}"), "(accepted)");
  EXPECT_EQ(JsonError(R"({"field":"a","in":[)" + values + ",1]}"), "the filter has more than 16384 values");
}

}  // namespace
}  // namespace maxsim::collection
