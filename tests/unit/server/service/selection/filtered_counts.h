// Makes random calls of Count and Facets and checks the answers by reading each document's payload.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collection/filters/filter_text.h"
#include "server/service/documents/document_counts.h"
#include "server/service/selection/filter_message.h"
#include "tests/support/collection/random_filters.h"
#include "tests/unit/server/service/selection/filtered_requests.h"

namespace maxsim::service {

class FilteredCounts {
 public:
  explicit FilteredCounts(collection::RandomFilters* random) : random_(*random) {}

  // Makes one random call of Count and one of Facets, and checks their answers.
  void Check(const FilteredCollection& collection) {
    std::optional<collection::Filter> filter;
    if (random_.Below(5) != 0) filter = random_.Tree(1 + static_cast<int>(random_.Below(4)));
    SCOPED_TRACE(filter.has_value() ? collection::FormatFilter(*filter) : "no filter");
    v1::CountRequest count;
    SetFilter(filter, count);
    const auto counted = CountDocuments(count, *collection.collection, nullptr);
    ASSERT_TRUE(counted.ok()) << counted.status();
    EXPECT_EQ(counted->count(), NumMatching(collection, filter));
    EXPECT_EQ(counted->sequence(), collection.collection->sequence());

    v1::FacetsRequest facets;
    facets.set_field(random_.Below(2) == 0 ? "lang" : "tags");
    facets.set_limit(static_cast<uint32_t>(random_.Below(12)));
    SetFilter(filter, facets);
    const auto answer = CountFacetsOf(facets, *collection.collection, {}, nullptr);
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_NO_FATAL_FAILURE(ExpectFacets(collection, filter, facets, *answer));
  }

  int num_cut() const { return num_cut_; }  // answers that leave out some values

 private:
  template <typename Request>
  void SetFilter(const std::optional<collection::Filter>& filter, Request& request) {
    if (!filter.has_value()) return;
    if (random_.Below(2) == 0) {
      request.set_filter_text(collection::FormatFilter(*filter));
    } else {
      *request.mutable_filter() = FilterMessageOf(*filter);
    }
  }

  static bool Matches(const FilteredDocument& document, const std::optional<collection::Filter>& filter) {
    return !filter.has_value() || document.meaning->Matches(*filter);
  }

  static uint64_t NumMatching(const FilteredCollection& collection, const std::optional<collection::Filter>& filter) {
    return static_cast<uint64_t>(
        std::count_if(collection.documents.begin(), collection.documents.end(),
                      [&](const FilteredDocument& document) { return Matches(document, filter); }));
  }

  void ExpectFacets(const FilteredCollection& collection, const std::optional<collection::Filter>& filter,
                    const v1::FacetsRequest& request, const v1::FacetsResponse& answer) {
    const collection::Field& field = *collection::FindField(collection::RandomFilters::fields(), request.field());
    std::map<std::string, uint64_t> counts;
    for (const FilteredDocument& document : collection.documents) {
      if (!Matches(document, filter)) continue;
      std::set<std::string> values;  // as a set, so that a document counts once even if it has a value twice
      for (const nlohmann::json& value : document.meaning->ValuesOf(field)) values.insert(value.get<std::string>());
      for (const std::string& value : values) ++counts[value];
    }
    std::vector<std::pair<std::string, uint64_t>> expected(counts.begin(), counts.end());
    std::stable_sort(expected.begin(), expected.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    EXPECT_EQ(answer.num_values(), expected.size());
    EXPECT_EQ(answer.num_documents(), NumMatching(collection, filter));
    const size_t limit = request.limit() == 0 ? kDefaultFacetValues : request.limit();
    if (expected.size() > limit) {
      expected.resize(limit);
      ++num_cut_;
    }
    std::vector<std::pair<std::string, uint64_t>> actual;
    for (const v1::FacetValue& value : answer.values()) actual.emplace_back(value.value(), value.count());
    EXPECT_EQ(actual, expected);
  }

  collection::RandomFilters& random_;
  int num_cut_ = 0;
};

}  // namespace maxsim::service
