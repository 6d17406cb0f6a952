// The documents that filters match.
#include "collection/filters/evaluate.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "collection/fields/field_file.h"
#include "collection/fields/field_file_maker.h"
#include "collection/fields/time_text.h"
#include "collection/filters/canonical.h"
#include "collection/filters/field_index.h"
#include "collection/filters/filter_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/values/random_documents.h"
#include "tests/unit/collection/filters/random_filters.h"

namespace maxsim::collection {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A shard in memory: the file of its fields, and their index.
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

// What a filter means, said a second time: over the JSON of one payload.
class BruteForce {
 public:
  explicit BruteForce(const std::string& payload)
      : payload_(payload.empty() ? nlohmann::json::object() : nlohmann::json::parse(payload)) {}

  bool Matches(const Filter& filter) const {
    const auto matches = [this](const Filter& child) { return Matches(child); };
    switch (filter.kind) {
      case Filter::Kind::kAnd:
        return std::all_of(filter.children.begin(), filter.children.end(), matches);
      case Filter::Kind::kOr:
        return std::any_of(filter.children.begin(), filter.children.end(), matches);
      case Filter::Kind::kNot:
        return !Matches(filter.children.front());
      default:
        break;
    }
    const Field& field = *FindField(RandomFilters::fields(), filter.field);
    std::vector<nlohmann::json> values = ValuesOf(field);
    return std::any_of(values.begin(), values.end(), [&](const nlohmann::json& value) {
      if (filter.kind == Filter::Kind::kExists) return true;
      if (filter.kind == Filter::Kind::kRange) return InRange(field.kind, value, filter);
      return std::any_of(filter.values.begin(), filter.values.end(),
                         [&](const FilterValue& wanted) { return Compare(field.kind, value, wanted) == 0; });
    });
  }

 private:
  // Returns the document's values: none, one, or those of a list.
  std::vector<nlohmann::json> ValuesOf(const Field& field) const {
    const nlohmann::json* value = &payload_;
    for (const std::string_view key : SplitFieldPath(field.path)) {
      const auto found = value->find(std::string(key));
      if (found == value->end() || found->is_null()) return {};
      value = &*found;
    }
    if (field.kind != FieldKind::kKeywords) return {*value};
    return {value->begin(), value->end()};
  }
  static int Sign(auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; }
  static int Compare(FieldKind kind, const nlohmann::json& value, const FilterValue& wanted) {
    switch (kind) {
      case FieldKind::kKeyword:
      case FieldKind::kKeywords:
        return value.get<std::string>().compare(std::get<std::string>(wanted));
      case FieldKind::kBoolean:
        return Sign(value.get<bool>(), std::get<bool>(wanted));
      case FieldKind::kTime:
        return Sign(*ParseTime(value.get<std::string>()), *ParseTime(std::get<std::string>(wanted)));
      case FieldKind::kInteger:
        return Sign(value.get<int64_t>(), std::holds_alternative<int64_t>(wanted)
                                              ? std::get<int64_t>(wanted)
                                              : static_cast<int64_t>(std::get<double>(wanted)));
      case FieldKind::kNumber:
        return Sign(value.get<double>(), std::holds_alternative<double>(wanted)
                                             ? std::get<double>(wanted)
                                             : static_cast<double>(std::get<int64_t>(wanted)));
    }
    return 1;
  }
  static bool InRange(FieldKind kind, const nlohmann::json& value, const Filter& filter) {
    if (filter.low.has_value() && Compare(kind, value, filter.low->value) < (filter.low->inclusive ? 0 : 1))
      return false;
    return !filter.high.has_value() || Compare(kind, value, filter.high->value) <= (filter.high->inclusive ? 0 : -1);
  }

  const nlohmann::json payload_;
};

// Random trees over random columns. Sizes lie around those at which bitmaps and lists change their form.
TEST(EvaluateTest, RandomFiltersMatchWhatTheirMeaningOverTheJsonMatches) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  RandomFilters random(seed);
  for (const int num_documents : {1, 2, 7, 8, 9, 63, 64, 65, 200, 1500}) {
    std::vector<std::string> payloads;
    for (int idx = 0; idx < num_documents; ++idx) payloads.push_back(random.Payload());
    const IndexedPayloads shard(RandomFilters::fields(), payloads);
    std::vector<BruteForce> references(payloads.begin(), payloads.end());
    for (int round = 0; round < (num_documents < 1000 ? 150 : 60); ++round) {
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

// One term that many documents have, and many that one has: of the first there is a bitmap.
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

}  // namespace
}  // namespace maxsim::collection
