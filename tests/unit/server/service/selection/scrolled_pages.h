// Scrolls through all pages of a snapshot and compares them with the sorted ids of the matching documents.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collection/filters/filter_text.h"
#include "server/service/documents/document_reader.h"
#include "server/service/documents/document_scroll.h"
#include "tests/support/collection/random_filters.h"
#include "tests/unit/server/service/selection/filtered_requests.h"

namespace maxsim::service {

class ScrolledPages {
 public:
  explicit ScrolledPages(collection::RandomFilters* random) : random_(*random) {}

  // Scrolls with a random filter and a random number of documents per page.
  void Check(const FilteredCollection& collection) {
    std::optional<collection::Filter> filter;
    if (random_.Below(4) != 0) filter = random_.Tree(1 + static_cast<int>(random_.Below(4)));
    SCOPED_TRACE(filter.has_value() ? collection::FormatFilter(*filter) : "no filter");
    const bool has_ints = collection.collection->manifest().id_type == collection::IdType::kInt64;
    std::vector<std::string> strings;
    std::vector<int64_t> ints;
    for (const FilteredDocument& document : collection.documents) {
      if (filter.has_value() && !document.meaning->Matches(*filter)) continue;
      if (has_ints) {
        ints.push_back(document.int_id);
      } else {
        strings.push_back(document.string_id);
      }
    }
    std::sort(strings.begin(), strings.end());
    std::sort(ints.begin(), ints.end());
    v1::ScrollRequest request;
    const uint64_t limit = 1 + random_.Below(random_.Below(2) == 0 ? 8 : 400);
    request.set_limit(static_cast<uint32_t>(limit));
    if (filter.has_value()) request.set_filter_text(collection::FormatFilter(*filter));
    ConcurrencyLimit readers = ReaderLimit();
    std::vector<std::string> seen_strings;
    std::vector<int64_t> seen_ints;
    for (bool has_more = true; has_more;) {
      const auto page = ScrollDocuments(request, *collection.collection, nullptr, {}, &readers, nullptr);
      ASSERT_TRUE(page.ok()) << page.status();
      has_more = page->has_more();
      ASSERT_LE(page->documents_size(), static_cast<int>(limit));
      if (has_more) {
        ASSERT_EQ(page->documents_size(), static_cast<int>(limit));
      }
      for (const v1::StoredDocument& document : page->documents()) {
        if (has_ints) {
          seen_ints.push_back(document.int_id());
          request.set_after_int_id(document.int_id());
        } else {
          seen_strings.push_back(document.string_id());
          request.set_after_string_id(document.string_id());
        }
      }
    }
    EXPECT_EQ(seen_strings, strings);
    EXPECT_EQ(seen_ints, ints);
  }

 private:
  collection::RandomFilters& random_;
};

}  // namespace maxsim::service
