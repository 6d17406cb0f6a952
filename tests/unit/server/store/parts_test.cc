#include "server/store/collection/parts.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace maxsim::store {
namespace {

// Finds the part by a linear search, as the reference.
size_t LastNotBehind(const std::vector<uint64_t>& first_ordinals, uint64_t ordinal) {
  size_t part = 0;
  for (size_t idx = 0; idx < first_ordinals.size(); ++idx) {
    if (first_ordinals[idx] <= ordinal) part = idx;
  }
  return part;
}

TEST(PartsTest, EveryOrdinalOfEveryNumberOfPartsIsFound) {
  for (size_t num_parts = 1; num_parts <= 40; ++num_parts) {
    std::vector<uint64_t> first_ordinals;
    uint64_t next = 0;
    for (size_t part = 0; part < num_parts; ++part) {
      first_ordinals.push_back(next);
      next += part * 7 % 5;  // some parts have no documents
    }
    for (uint64_t ordinal = 0; ordinal <= next; ++ordinal) {
      ASSERT_EQ(PartOf(first_ordinals, ordinal), LastNotBehind(first_ordinals, ordinal))
          << ordinal << " of " << num_parts << " parts";
    }
  }
}

}  // namespace
}  // namespace maxsim::store
