#include "server/service/request/ordinal_set.h"

#include <random>
#include <unordered_set>

#include <gtest/gtest.h>

#include "tests/support/values/random_documents.h"

namespace maxsim::service {
namespace {

TEST(OrdinalSetTest, KnowsWhatIsNewInEachListWhateverCameBefore) {
  SCOPED_TRACE(test::SeedTrace(test::TestSeed()));
  std::mt19937_64 random(test::TestSeed());
  OrdinalSet set;
  // Long and short lists alternate, so that tables grow, are used in part, and are freed again.
  for (const size_t length : {1u, 100u, 3u, 5000u, 7u, 200'000u, 8u, 9u, 1000u, 900u, 800u, 300'000u, 16u, 17u}) {
    std::unordered_set<uint64_t> expected;
    // Takes ordinals from a small range, so that many repeat. The range is at the bottom or at the top of all ordinals.
    // At the bottom, the collection has few or many documents beyond the range, so that the set uses a bitmap or a
    // table.
    const uint64_t base = random() % 2 == 0 ? 0 : (uint64_t{1} << 40) - 2 * length;
    set.Begin(length, base + 2 * length * (base == 0 && random() % 2 == 0 ? 1 + random() % 2000 : 1));
    for (size_t n = 0; n < length; ++n) {
      const uint64_t ordinal = base + random() % (2 * length);
      ASSERT_EQ(set.Insert(ordinal), expected.insert(ordinal).second) << ordinal;
    }
  }
}

TEST(OrdinalSetTest, ManyListsDoNotMeetOneAnother) {
  OrdinalSet set;
  // An entry of the set's table has 24 bits for the number of its list. The test uses more lists, so numbers repeat. An
  // entry of an earlier list must not count for a later list with the same number.
  for (int list = 0; list < (1 << 24) + 100; ++list) {
    set.Begin(1, 100'000);
    ASSERT_TRUE(set.Insert(5));
    ASSERT_FALSE(set.Insert(5));
  }
}

}  // namespace
}  // namespace maxsim::service
