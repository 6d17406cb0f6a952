// The documents that filters match.
#include "collection/filters/evaluate.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collection/fields/field_file.h"
#include "collection/fields/field_file_maker.h"
#include "collection/filters/canonical.h"
#include "collection/filters/field_index.h"
#include "collection/filters/filter_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/filter_meaning.h"
#include "tests/support/collection/random_filters.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::collection {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The field file of one shard in memory, and the index that is made from it.
struct IndexedPayloads {
  IndexedPayloads(const std::vector<Field>& declared, const std::vector<std::string>& payloads) : fields(declared) {
    FieldFileMaker maker(fields);
    for (const std::string& payload : payloads) {
      const absl::Status status = maker.Add(payload);
      EXPECT_TRUE(status.ok()) << status << payload;
    }
    bytes = maker.Make();
    const auto num_documents = static_cast<int64_t>(payloads.size());
    const auto columns = ParseFieldFile(bytes, fields, num_documents);
    EXPECT_TRUE(columns.ok()) << columns.status();
    index = std::make_unique<ShardIndex>(fields, *columns, num_documents);
  }

  std::vector<uint32_t> Matches(std::string_view text) const {
    const auto filter = ParseFilter(text);
    EXPECT_TRUE(filter.ok()) << filter.status();
    const auto canonical = CanonicalFilter(*filter, fields);
    EXPECT_TRUE(canonical.ok()) << canonical.status();
    const auto set = EvaluateFilter(*canonical, *index);
    EXPECT_TRUE(set.ok()) << set.status();
    return set->ToVector();
  }

  const std::vector<Field> fields;
  std::string bytes;
  std::unique_ptr<ShardIndex> index;
};

// Evaluates random filter trees and compares the matches with those of FilterMeaning, a second implementation that
// reads the JSON payloads.
TEST(EvaluateTest, RandomFiltersMatchWhatTheirMeaningOverTheJsonMatches) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  RandomFilters random(seed);
  for (const int num_documents : {1, 2, 7, 8, 9, 63, 64, 65, 200, 1500}) {
    std::vector<std::string> payloads;
    for (int idx = 0; idx < num_documents; ++idx) payloads.push_back(random.Payload());
    const IndexedPayloads shard(RandomFilters::fields(), payloads);
    std::vector<FilterMeaning> references(payloads.begin(), payloads.end());
    for (int round = 0; round < (num_documents < 1000 ? 150 : 60) / (test::kSanitized ? 5 : 1); ++round) {
      const Filter filter = random.Tree(1 + round % 5);
      const auto canonical = CanonicalFilter(filter, RandomFilters::fields());
      ASSERT_TRUE(canonical.ok()) << canonical.status();
      const auto set = EvaluateFilter(*canonical, *shard.index);
      ASSERT_TRUE(set.ok()) << set.status();
      std::vector<uint32_t> expected;
      for (size_t idx = 0; idx < references.size(); ++idx) {
        if (references[idx].Matches(filter)) expected.push_back(static_cast<uint32_t>(idx));
      }
      ASSERT_EQ(set->ToVector(), expected) << FormatFilter(filter) << "\n" << FormatFilter(*canonical);
      ASSERT_EQ(set->size(), static_cast<int64_t>(expected.size()));
    }
  }
}

// One keyword is in every third document, so the index stores a bitmap for it. Each other keyword is in one document
// only.
TEST(EvaluateTest, FrequentAndRareKeywordsAreFound) {
  constexpr int kDocuments = 70'000;  // more than the 65,536 of one container
  std::vector<std::string> payloads;
  for (int idx = 0; idx < kDocuments; ++idx) {
    payloads.push_back(R"({"k":")" + (idx % 3 == 0 ? std::string("often") : "id" + std::to_string(idx)) +
                       "\",\"n\":" + std::to_string(kDocuments - idx) + "}");
  }
  const IndexedPayloads shard(*ParseFields("k:keyword,n:integer"), payloads);
  std::vector<uint32_t> often;
  for (uint32_t idx = 0; idx < kDocuments; idx += 3) often.push_back(idx);
  EXPECT_EQ(shard.Matches("k = \"often\""), often);
  EXPECT_THAT(shard.Matches("k in (\"id69998\", \"id1\", \"id0\", \"id2\", \"oftener\")"), ElementsAre(1, 2, 69998));
  EXPECT_EQ(shard.Matches("k in (\"often\", \"id1\")").size(), often.size() + 1);
  EXPECT_EQ(shard.Matches("not k = \"often\"").size(), kDocuments - often.size());
  EXPECT_THAT(shard.Matches("n <= 3"), ElementsAre(69997, 69998, 69999));
  EXPECT_EQ(shard.Matches("n > 3").size(), kDocuments - 3);
  EXPECT_THAT(shard.Matches("n > 3 and n <= 5"), ElementsAre(69995, 69996));
  EXPECT_THAT(shard.Matches("n > 3 and n < 3"), ElementsAre());
}

// For long ranges of values, the index has masks with one bit per document. Mask k has the documents of the k * 1,024
// smallest values (k * num_documents / 16 if that is more). The documents of a long range are the difference of two
// masks. An error there would make a filter match wrong documents.
TEST(EvaluateTest, RangesOfEveryLengthAreFound) {
  for (const int num_documents : {1'000, 1'024, 2'047, 20'011}) {
    std::vector<std::string> payloads;
    std::vector<std::pair<int, uint32_t>> values;  // a permutation, and repeated values
    for (int document = 0; document < num_documents; ++document) {
      const int value = static_cast<int>(int64_t{document} * 7'919 % num_documents) / 3;
      const bool is_present = document % 5 != 0;
      payloads.push_back(is_present ? absl::StrCat(R"({"year":)", value, R"(,"price":)", value, ".5}") : "{}");
      if (is_present) values.emplace_back(value, static_cast<uint32_t>(document));
    }
    const IndexedPayloads indexed({{"year", FieldKind::kInteger, "year"}, {"price", FieldKind::kNumber, "price"}},
                                  payloads);
    const int end = num_documents / 3 + 1;
    for (const int low : {0, 1, end / 7, end / 2, end - 2, end}) {
      for (const int high : {0, 1, end / 7 + 1, end / 2, end - 300, end}) {
        std::vector<uint32_t> expected;
        for (const auto& [value, document] : values) {
          if (value >= low && value <= high) expected.push_back(document);
        }
        EXPECT_EQ(indexed.Matches(absl::StrCat("year >= ", low, " and year <= ", high)), expected);
        EXPECT_EQ(indexed.Matches(absl::StrCat("price >= ", low, " and price < ", high + 1)), expected);
      }
    }
  }
}

TEST(EvaluateTest, ANegationMatchesDocumentsWithoutAValue) {
  const IndexedPayloads shard(*ParseFields("lang:keyword,sold:boolean"),
                              {R"({"lang":"en","sold":true})", "", R"({"lang":"de","sold":false})"});
  EXPECT_THAT(shard.Matches("lang != \"en\""), ElementsAre(1, 2));
  EXPECT_THAT(shard.Matches("exists(lang) and lang != \"en\""), ElementsAre(2));
  EXPECT_THAT(shard.Matches("not exists(lang)"), ElementsAre(1));
  EXPECT_THAT(shard.Matches("sold = false"), ElementsAre(2));
  EXPECT_THAT(shard.Matches("sold in (true, false)"), ElementsAre(0, 2));
  EXPECT_THAT(shard.Matches("not sold = true and not lang = \"de\""), ElementsAre(1));
}

TEST(EvaluateTest, AFilterOfOtherFieldsIsRefused) {
  const IndexedPayloads shard(*ParseFields("lang:keyword"), {""});
  const auto set = EvaluateFilter(Filter::Not(Filter::Exists("year")), *shard.index);
  ASSERT_TRUE(absl::IsInvalidArgument(set.status()));
  EXPECT_THAT(std::string(set.status().message()), HasSubstr("field \"year\" is not declared"));
}

TEST(EvaluateTest, TheCheckIsAskedBeforeEachComparisonAndEndsTheEvaluation) {
  const IndexedPayloads shard(*ParseFields("lang:keyword"), {R"({"lang":"en"})", ""});
  const Filter comparison = Filter::Exists("lang");
  const Filter filter = Filter::Or({Filter::And({comparison, Filter::Not(comparison)}), comparison});
  int num_checks = 0;
  const auto whole = EvaluateFilter(filter, *shard.index, [&] {
    ++num_checks;
    return absl::OkStatus();
  });
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_THAT(whole->ToVector(), ElementsAre(0));
  EXPECT_EQ(num_checks, 3);
  for (int last = 0; last < 3; ++last) {
    num_checks = 0;
    const absl::Status ended = EvaluateFilter(filter, *shard.index, [&] {
                                 return num_checks++ < last ? absl::OkStatus() : absl::CancelledError("enough");
                               }).status();
    EXPECT_EQ(ended, absl::CancelledError("enough"));
    EXPECT_EQ(num_checks, last + 1);
  }
}

}  // namespace
}  // namespace maxsim::collection
