// Compares the evaluation of a filter on one document with a second implementation, which reads the JSON.
#include "collection/filters/match.h"

#include <string>

#include <gtest/gtest.h>

#include "collection/filters/canonical.h"
#include "collection/filters/filter_text.h"
#include "tests/support/collection/filter_meaning.h"
#include "tests/support/collection/random_filters.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::collection {
namespace {

bool Matches(const std::string& text, const std::string& payload) {
  const std::vector<Field>& fields = RandomFilters::fields();
  FieldReader reader(fields);
  const auto filter = CanonicalFilter(*ParseFilter(text), fields);
  EXPECT_TRUE(filter.ok()) << filter.status();
  const auto values = reader.Read(payload);
  EXPECT_TRUE(values.ok()) << values.status();
  return MatchesFilter(*filter, fields, **values, /*slot=*/0);
}

TEST(MatchTest, RandomFiltersMatchTheDocumentsThatTheyMean) {
  SCOPED_TRACE(test::SeedTrace(test::TestSeed()));
  RandomFilters random(test::TestSeed());
  const std::vector<Field>& fields = RandomFilters::fields();
  FieldReader reader(fields);
  int num_matches = 0;
  constexpr int kRounds = test::kSanitized ? 1'000 : 5'000;
  for (int round = 0; round < kRounds; ++round) {
    random.UseSlots(round % 2 == 0 ? 0 : 3);
    const Filter filter = random.Tree(1 + static_cast<int>(random.Below(4)));
    const std::string payload = random.Payload();
    const auto slot = static_cast<int32_t>(random.Below(kNumSlots));
    const auto canonical = CanonicalFilter(filter, fields);
    ASSERT_TRUE(canonical.ok()) << canonical.status();
    const auto values = reader.Read(payload);
    ASSERT_TRUE(values.ok()) << values.status();
    const bool expected = FilterMeaning(payload, slot).Matches(filter);
    ASSERT_EQ(MatchesFilter(*canonical, fields, **values, slot), expected) << FormatFilter(filter) << "\n" << payload;
    num_matches += expected ? 1 : 0;
  }
  EXPECT_GT(num_matches, kRounds / 10);
  EXPECT_LT(num_matches, kRounds * 9 / 10);
}

TEST(MatchTest, BoundsAreComparedInTheirKind) {
  EXPECT_TRUE(Matches("year >= 2020 and year < 2021", R"({"year": 2020})"));
  EXPECT_FALSE(Matches("year > 2020", R"({"year": 2020})"));
  EXPECT_TRUE(Matches("price <= 1.5", R"({"price": 1.5})"));
  EXPECT_FALSE(Matches("price < 1.5", R"({"price": 1.5})"));
  EXPECT_TRUE(Matches("at = \"2026-01-02T01:00:00Z\"", R"({"at": "2026-01-02T02:00:00+01:00"})"));
  EXPECT_TRUE(Matches("at > \"2026-01-02T01:00:00Z\"", R"({"at": "2026-01-02T02:00:00.000001+01:00"})"));
}

TEST(MatchTest, ADocumentWithoutAValueMatchesOnlyNegations) {
  EXPECT_FALSE(Matches("lang = \"en\"", ""));
  EXPECT_TRUE(Matches("lang != \"en\"", ""));
  EXPECT_FALSE(Matches("exists(lang)", R"({"m": {"lang": null}})"));
  EXPECT_TRUE(Matches("tags = \"b\"", R"({"m": {"tags": ["c", "b", "a"]}})"));
  EXPECT_FALSE(Matches("tags = \"d\"", R"({"m": {"tags": ["c", "b", "a"]}})"));
}

}  // namespace
}  // namespace maxsim::collection
