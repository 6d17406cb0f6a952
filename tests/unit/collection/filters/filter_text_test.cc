// The text form of filters.
#include "collection/filters/filter_text.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

Filter Parsed(std::string_view text) {
  const auto filter = ParseFilter(text);
  EXPECT_TRUE(filter.ok()) << filter.status();
  return filter.ok() ? *filter : Filter();
}

std::string ParseError(std::string_view text) {
  const auto filter = ParseFilter(text);
  if (filter.ok()) return "(accepted)";
  EXPECT_TRUE(absl::IsInvalidArgument(filter.status()));
  return std::string(filter.status().message());
}

TEST(FilterTextTest, EveryComparisonIsParsed) {
  EXPECT_EQ(Parsed("a = 1"), Filter::Equals("a", int64_t{1}));
  EXPECT_EQ(Parsed("a=-1.5"), Filter::Equals("a", -1.5));
  EXPECT_EQ(Parsed("a = 1E3"), Filter::Equals("a", 1000.0));
  EXPECT_EQ(Parsed("a = 9223372036854775808"), Filter::Equals("a", 9223372036854775808.0));
  EXPECT_EQ(Parsed("a = -9223372036854775808"), Filter::Equals("a", INT64_MIN));
  EXPECT_EQ(Parsed("a = TRUE"), Filter::Equals("a", true));
  EXPECT_EQ(Parsed("_a1 = \"x \\\"\\u00e9\\n\""), Filter::Equals("_a1", "x \"\xc3\xa9\n"));
  EXPECT_EQ(Parsed("a != \"x\""), Filter::Not(Filter::Equals("a", "x")));
  EXPECT_EQ(Parsed("a < 1"), Filter::Range("a", std::nullopt, FilterBound{int64_t{1}, false}));
  EXPECT_EQ(Parsed("a <= 1"), Filter::Range("a", std::nullopt, FilterBound{int64_t{1}, true}));
  EXPECT_EQ(Parsed("a > 1"), Filter::Range("a", FilterBound{int64_t{1}, false}, std::nullopt));
  EXPECT_EQ(Parsed("a >= 1"), Filter::Range("a", FilterBound{int64_t{1}, true}, std::nullopt));
  EXPECT_EQ(Parsed("a in (1, \"x\" ,true)"), Filter::In("a", {int64_t{1}, "x", true}));
  EXPECT_EQ(Parsed("a NOT IN (1)"), Filter::Not(Filter::In("a", {int64_t{1}})));
  EXPECT_EQ(Parsed("Exists ( a )"), Filter::Exists("a"));
}

TEST(FilterTextTest, NotBindsCloserThanAndAndAndCloserThanOr) {
  const Filter a = Filter::Exists("a");
  const Filter b = Filter::Exists("b");
  const Filter c = Filter::Exists("c");
  EXPECT_EQ(Parsed("exists(a) or exists(b) and exists(c)"), Filter::Or({a, Filter::And({b, c})}));
  EXPECT_EQ(Parsed("exists(a) and exists(b) or exists(c)"), Filter::Or({Filter::And({a, b}), c}));
  EXPECT_EQ(Parsed("not exists(a) and exists(b)"), Filter::And({Filter::Not(a), b}));
  EXPECT_EQ(Parsed("not (exists(a) and exists(b))"), Filter::Not(Filter::And({a, b})));
  EXPECT_EQ(Parsed("(exists(a) or exists(b)) and\n\texists(c)"), Filter::And({Filter::Or({a, b}), c}));
  EXPECT_EQ(Parsed("exists(a) and exists(b) and exists(c)"), Filter::And({a, b, c}));
}

TEST(FilterTextTest, ErrorsNamePositionWhatWasFoundAndWhatIsExpected) {
  EXPECT_EQ(ParseError(""), "position 1: found the end of the filter, expected a field, exists, not or (");
  EXPECT_EQ(ParseError("lang"), "position 5: found the end of the filter, expected =, !=, <, <=, >, >=, in or not in");
  EXPECT_EQ(ParseError("lang == \"en\""),
            "position 7: found \"=\", expected a value: a string in double quotes, a number, true or false");
  EXPECT_EQ(ParseError("lang = en"),
            "position 8: found \"en\", expected a value: a string in double quotes, a number, true or false");
  EXPECT_EQ(ParseError("lang = 'en'"),
            "position 8: found \"'\", expected a value: a string in double quotes, a number, true or false");
  EXPECT_EQ(
      ParseError("lang = \"en"),
      "position 8: found a string that does not end, \"en\", expected a value: a string in double quotes, a number, "
      "true or false");
  EXPECT_EQ(ParseError("lang = \"\xc3\xa9\" year"),
            "position 12: found \"year\", expected and, or, or the end of the filter");
  EXPECT_EQ(ParseError("lang ! \"x\""), "position 6: found \"!\", expected =, !=, <, <=, >, >=, in or not in");
  EXPECT_EQ(ParseError("lang \xc3\xa9 \"x\""),
            "position 6: found \"\xc3\xa9\", expected =, !=, <, <=, >, >=, in or not in");
  EXPECT_EQ(ParseError("lang not = 1"), "position 10: found \"=\", expected in");
  EXPECT_EQ(ParseError("lang in 1"), "position 9: found \"1\", expected ( and a list of values");
  EXPECT_EQ(ParseError("lang in ()"),
            "position 10: found \")\", expected a value: a string in double quotes, a number, true or false");
  EXPECT_EQ(ParseError("lang in (1 2)"), "position 12: found \"2\", expected , or )");
  EXPECT_EQ(ParseError("(lang = 1"), "position 10: found the end of the filter, expected and, or, or )");
  EXPECT_EQ(ParseError("exists lang"), "position 8: found \"lang\", expected ( and a field");
  EXPECT_EQ(ParseError("exists(and)"), "position 8: found \"and\", expected a field");
  EXPECT_EQ(ParseError("exists(a"), "position 9: found the end of the filter, expected )");
  EXPECT_EQ(ParseError("\"lang\" = 1"), "position 1: found the string \"lang\", expected a field, exists, not or (");
  EXPECT_EQ(ParseError("a = 1 and"), "position 10: found the end of the filter, expected a field, exists, not or (");
  EXPECT_EQ(ParseError("a = 01"), "position 5: found 01, which is not a number of JSON");
  EXPECT_EQ(ParseError("a = 1x"), "position 5: found 1x, which is not a number of JSON");
  EXPECT_EQ(ParseError("a = -"), "position 5: found -, which is not a number of JSON");
  EXPECT_EQ(ParseError("a = 1e400"), "position 5: found 1e400, which is not a number of JSON");
  EXPECT_EQ(ParseError("a = \"\\x\""), "position 5: found \"\\x\", which is not a string of JSON");
  EXPECT_EQ(ParseError("a = \"\xff\""), "the filter is not UTF-8");
  EXPECT_EQ(ParseError(std::string("a = 1\0", 6)),
            "position 6: found \"?\", expected and, or, or the end of the filter");
}

TEST(FilterTextTest, DepthAndSizeAreBounded) {
  const auto nested = [](size_t depth) { return std::string(depth, '(') + "a = 1" + std::string(depth, ')'); };
  EXPECT_EQ(ParseError(nested(31)), "(accepted)");
  EXPECT_THAT(ParseError(nested(32)), HasSubstr("position 33: the filter is nested deeper than 32 levels"));
  EXPECT_THAT(ParseError(nested(200'000)), HasSubstr("nested deeper than 32 levels"));
  std::string nots;
  for (int idx = 0; idx < 100'000; ++idx) nots += "not ";
  EXPECT_THAT(ParseError(nots + "a = 1"), HasSubstr("nested deeper than 32 levels"));
  std::string many = "a = 1";
  for (int idx = 1; idx < 1023; ++idx) many += " and a = 1";
  EXPECT_EQ(ParseError(many), "(accepted)");
  EXPECT_EQ(ParseError(many + " and a = 1"), "the filter has more than 1024 nodes");
  std::string values = "a in (1";
  for (size_t idx = 1; idx < kMaxFilterValues; ++idx) values += ",1";
  EXPECT_EQ(ParseError(values + ")"), "(accepted)");
  EXPECT_EQ(ParseError(values + ",1)"), "the filter has more than 16384 values");
  EXPECT_EQ(ParseError("a = \"" + std::string(kMaxFilterTextBytes, 'x') + "\""),
            "the filter has 1048582 bytes, the limit is 1048576");
}

TEST(FilterTextTest, SlotsArePrintedAndNotParsed) {
  const Filter slots = Filter::InSlots({0, 1365});
  EXPECT_EQ(FormatFilter(slots), "in_slots(0-1364)");
  EXPECT_EQ(FormatFilter(Filter::Or({Filter::Not(slots), Filter::Exists("a")})), "not in_slots(0-1364) or exists(a)");
  EXPECT_EQ(FormatFilter(Filter::Everything()), "in_slots(0-4095)");
  EXPECT_EQ(ParseError("in_slots(0-1364)"), "position 9: found \"(\", expected =, !=, <, <=, >, >=, in or not in");
  // A field may be called in_slots. The text of a comparison with it always differs from "in_slots(...)".
  EXPECT_EQ(Parsed("in_slots = 3"), Filter::Equals("in_slots", int64_t{3}));
}

TEST(FilterTextTest, TextReturns) {
  for (const char* const text :
       {"a = 1", "a = 1.0", "a != \"x\"", "a in (1, 2.5, \"x\\n\", true)", "a not in (false)", "exists(a)",
        "not exists(a)", "not a >= 5", "a > 1 and a <= 5", "(a = 1 or b = 2) and c = 3", "(a = 1 and b = 2) or c = 3",
        "not (a = 1 and (b = 2 or c != 3))", "not (not a < 1e+300)", "a = 5e-324"}) {
    EXPECT_EQ(FormatFilter(Parsed(text)),
              text == std::string_view("not (not a < 1e+300)") ? "not not a < 1e+300" : text);
  }
}

}  // namespace
}  // namespace maxsim::collection
