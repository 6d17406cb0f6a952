// The canonical form of filters.
#include "collection/filters/canonical.h"

#include <string>

#include "collection/filters/filter_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/filter_meaning.h"
#include "tests/support/collection/random_filters.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

std::string Canonical(std::string_view text) {
  const auto filter = ParseFilter(text);
  EXPECT_TRUE(filter.ok()) << filter.status();
  const auto canonical = CanonicalFilter(*filter, RandomFilters::fields());
  return canonical.ok() ? FormatFilter(*canonical) : "refused: " + std::string(canonical.status().message());
}

TEST(CanonicalTest, FiltersThatSayTheSameHaveOneForm) {
  EXPECT_EQ(Canonical("year=5 and lang=\"en\""), "lang = \"en\" and year = 5");
  EXPECT_EQ(Canonical("(lang=\"en\") AND ((year=5))"), "lang = \"en\" and year = 5");
  EXPECT_EQ(Canonical("year=5 and (lang=\"en\" and (sold=true and year=5))"),
            "lang = \"en\" and sold = true and year = 5");
  EXPECT_EQ(Canonical("not not year=5"), "year = 5");
  EXPECT_EQ(Canonical("not not not year=5"), "year != 5");
  EXPECT_EQ(Canonical("not (not (year=5 and sold=true)) and exists(lang)"),
            "exists(lang) and sold = true and year = 5");
  EXPECT_EQ(Canonical("lang in (\"b\", \"a\", \"b\")"), "lang in (\"a\", \"b\")");
  EXPECT_EQ(Canonical("lang in (\"b\")"), "lang = \"b\"");
  EXPECT_EQ(Canonical("lang=\"b\" or exists(year) or lang in (\"a\",\"c\") or lang=\"b\""),
            "exists(year) or lang in (\"a\", \"b\", \"c\")");
  EXPECT_EQ(Canonical("lang=\"b\" or (lang=\"a\" or lang=\"b\")"), "lang in (\"a\", \"b\")");
  EXPECT_EQ(Canonical("year<9 and year>=1 and year<=9 and year>0"), "year >= 1 and year < 9");
  EXPECT_EQ(Canonical("lang=\"x\" and year<9 and year>=1"), "lang = \"x\" and year >= 1 and year < 9");
  EXPECT_EQ(Canonical("sold=true or (year<9 and year>=1)"), "sold = true or (year >= 1 and year < 9)");
  EXPECT_EQ(Canonical("not (year<9 and year>=1)"), "not (year >= 1 and year < 9)");
  EXPECT_EQ(Canonical("year<9 or year>=1"), "year < 9 or year >= 1");
}

TEST(CanonicalTest, ValuesHaveTheTypeOfTheirField) {
  EXPECT_EQ(Canonical("year = 2020.0"), "year = 2020");
  EXPECT_EQ(Canonical("year in (3, 2.0, 2)"), "year in (2, 3)");
  EXPECT_EQ(Canonical("price > 5"), "price > 5.0");
  EXPECT_EQ(Canonical("price = -0.0"), "price = 0.0");
  EXPECT_EQ(Canonical("price = 1e2"), "price = 100.0");
  EXPECT_EQ(Canonical("at >= \"2026-01-02T03:04:05.500+01:00\""), "at >= \"2026-01-02T02:04:05.500000Z\"");
  EXPECT_EQ(Canonical("at >= \"2026-01-02T03:04:05Z\" and at >= \"2026-01-02T03:04:05.5Z\""),
            "at >= \"2026-01-02T03:04:05.500000Z\"");
  EXPECT_EQ(Canonical("year = -9223372036854775808.0"), "year = -9223372036854775808");
}

TEST(CanonicalTest, WhatDoesNotFitTheFieldsIsNamed) {
  EXPECT_EQ(Canonical("color = \"red\""),
            "refused: field \"color\" is not declared; the collection has lang, tags, year, price, sold, at");
  EXPECT_EQ(Canonical("year = \"2020\""),
            "refused: field \"year\" is of kind integer: the value is \"2020\"; must be an integer of 64 bits");
  EXPECT_THAT(Canonical("year < 2020.5"), HasSubstr("the value is 2020.5; must be an integer of 64 bits"));
  EXPECT_THAT(Canonical("year < 9223372036854775808"), HasSubstr("must be an integer of 64 bits"));
  EXPECT_THAT(Canonical("lang = 5"), HasSubstr("field \"lang\" is of kind keyword: the value is 5; must be a string"));
  EXPECT_THAT(Canonical("tags in (\"a\", true)"), HasSubstr("the value is true; must be a string"));
  EXPECT_THAT(Canonical("sold = 1"), HasSubstr("the value is 1; must be true or false"));
  EXPECT_THAT(Canonical("price = \"1\""), HasSubstr("the value is \"1\"; must be a number"));
  EXPECT_THAT(Canonical("at < \"2026-01-02\""), HasSubstr("a string with a time of RFC 3339"));
  EXPECT_THAT(Canonical("at < 5"), HasSubstr("a string with a time of RFC 3339"));
  EXPECT_THAT(Canonical("lang < \"x\""),
              HasSubstr("field \"lang\" is of kind keyword; only integer, number and time have ranges"));
  EXPECT_THAT(Canonical("sold >= true"), HasSubstr("field \"sold\" is of kind boolean; only"));
  EXPECT_THAT(std::string(CanonicalFilter(Filter::Exists("x"), {}).status().message()),
              HasSubstr("the collection has no fields"));
}

TEST(CanonicalTest, TheFormOfTheFormAndOfItsTextIsTheForm) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  RandomFilters random(seed);
  for (int round = 0; round < (test::kSanitized ? 200 : 2000); ++round) {
    const Filter filter = random.Tree(1 + round % 6);
    const auto canonical = CanonicalFilter(filter, RandomFilters::fields());
    ASSERT_TRUE(canonical.ok()) << canonical.status();
    const auto again = CanonicalFilter(*canonical, RandomFilters::fields());
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(*again, *canonical) << FormatFilter(filter);
    for (const Filter* const printed : {&filter, &*canonical}) {
      const std::string text = FormatFilter(*printed);
      const auto parsed = ParseFilter(text);
      ASSERT_TRUE(parsed.ok()) << parsed.status() << text;
      const auto of_text = CanonicalFilter(*parsed, RandomFilters::fields());
      ASSERT_TRUE(of_text.ok()) << of_text.status();
      ASSERT_EQ(*of_text, *canonical) << text << "\n" << FormatFilter(*of_text) << "\n" << FormatFilter(*canonical);
    }
  }
}

// Returns the text of the filter's canonical form for a collection with the slots 0 .. 2047.
std::string CanonicalForSlots(const Filter& filter) {
  const auto canonical = CanonicalFilter(filter, RandomFilters::fields(), {0, 2048});
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  EXPECT_EQ(*CanonicalFilter(*canonical, RandomFilters::fields(), {0, 2048}), *canonical);
  return FormatFilter(*canonical);
}

TEST(CanonicalTest, SlotsThatAreAllHeldMatchEveryDocument) {
  const std::string everything = FormatFilter(Filter::Everything());
  const std::string nothing = FormatFilter(Filter::Not(Filter::Everything()));
  const Filter some = Filter::InSlots({0, 2047});
  const Filter all = Filter::InSlots({0, 2048});
  const Filter year = Filter::Exists("year");
  EXPECT_EQ(CanonicalForSlots(some), "in_slots(0-2046)");
  EXPECT_EQ(CanonicalForSlots(Filter::InSlots({1, 2048})), "in_slots(1-2047)");
  EXPECT_EQ(CanonicalForSlots(all), everything);
  EXPECT_EQ(CanonicalForSlots(Filter::InSlots({0, 3000})), everything);
  EXPECT_EQ(CanonicalForSlots(Filter::Not(all)), nothing);
  EXPECT_EQ(CanonicalForSlots(Filter::Not(Filter::Not(all))), everything);
  EXPECT_EQ(CanonicalForSlots(Filter::And({year, all})), "exists(year)");
  EXPECT_EQ(CanonicalForSlots(Filter::And({all, Filter::And({all, year}), some})), "exists(year) and in_slots(0-2046)");
  EXPECT_EQ(CanonicalForSlots(Filter::And({all, Filter::Or({all, year})})), everything);
  EXPECT_EQ(CanonicalForSlots(Filter::And({year, Filter::Not(all)})), nothing);
  EXPECT_EQ(CanonicalForSlots(Filter::Or({year, all, some})), everything);
  EXPECT_EQ(CanonicalForSlots(Filter::Or({year, Filter::Not(all)})), "exists(year)");
  EXPECT_EQ(CanonicalForSlots(Filter::Or({Filter::Not(all), Filter::Not(all)})), nothing);
  EXPECT_EQ(CanonicalForSlots(Filter::Or({some, some})), "in_slots(0-2046)");
  // A child that decides an "or" hides no error of another one.
  EXPECT_FALSE(CanonicalFilter(Filter::Or({all, Filter::Exists("color")}), RandomFilters::fields(), {0, 2048}).ok());
}

TEST(CanonicalTest, RandomFiltersWithSlotsMatchTheSameDocuments) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  RandomFilters random(seed);
  random.UseSlots(3);
  for (int round = 0; round < (test::kSanitized ? 300 : 3000); ++round) {
    const Filter filter = random.Tree(1 + round % 5);
    const SlotRange held = random.Slots();
    const auto canonical = CanonicalFilter(filter, RandomFilters::fields(), held);
    ASSERT_TRUE(canonical.ok()) << canonical.status();
    ASSERT_EQ(*CanonicalFilter(*canonical, RandomFilters::fields(), held), *canonical) << FormatFilter(filter);
    const FilterMeaning document(random.Payload(),
                                 held.first + static_cast<int32_t>(random.Below(static_cast<uint64_t>(held.size()))));
    ASSERT_EQ(document.Matches(*canonical), document.Matches(filter)) << FormatFilter(filter);
  }
}

TEST(CanonicalTest, AFilterAtTheLimitOfDepthReturnsFromItsText) {
  Filter filter = Filter::Range("year", FilterBound{int64_t{1}}, FilterBound{int64_t{9}});
  for (int level = 2; level < kMaxFilterDepth; ++level) {
    std::vector<Filter> children = {Filter::Exists("lang")};
    children.push_back(std::move(filter));
    filter = level % 2 == 0 ? Filter::Or(std::move(children)) : Filter::And(std::move(children));
  }
  const auto canonical = CanonicalFilter(filter, RandomFilters::fields());
  ASSERT_TRUE(canonical.ok()) << canonical.status();
  const auto parsed = ParseFilter(FormatFilter(*canonical));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*CanonicalFilter(*parsed, RandomFilters::fields()), *canonical);
  EXPECT_FALSE(CanonicalFilter(Filter::Or({filter}), RandomFilters::fields()).ok());
}

}  // namespace
}  // namespace maxsim::collection
