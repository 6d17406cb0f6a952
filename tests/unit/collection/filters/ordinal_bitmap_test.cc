// Sets of ordinals.
#include "collection/filters/ordinal_bitmap.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::collection {
namespace {

using ::testing::ElementsAre;

TEST(OrdinalBitmapTest, EmptyAndWholeSets) {
  EXPECT_TRUE(OrdinalBitmap().empty());
  EXPECT_TRUE(OrdinalBitmap::All(0).empty());
  EXPECT_TRUE(OrdinalBitmap::FromSorted({}).empty());
  EXPECT_TRUE(OrdinalBitmap::FromMask({}).empty());
  EXPECT_TRUE(OrdinalBitmap::FromMask({0, 0}).empty());
  EXPECT_THAT(OrdinalBitmap::All(3).ToVector(), ElementsAre(0, 1, 2));
  OrdinalBitmap set;
  set.Complement(3);
  EXPECT_EQ(set, OrdinalBitmap::All(3));
  set.Complement(3);
  EXPECT_EQ(set, OrdinalBitmap());
  constexpr int64_t kEvery = int64_t{1} << 32;
  EXPECT_EQ(OrdinalBitmap::All(kEvery - 1).size(), kEvery - 1);
}

// A container covers 65,536 ordinals. It stores the set's ordinals as an array of up to 4,096, as bits, or as runs. The
// random sets need all three forms.
TEST(OrdinalBitmapTest, OperationsAreThoseOfSets) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  std::mt19937_64 random(seed);
  constexpr uint32_t kEnd = 200'000;
  const auto make = [&] {
    std::set<uint32_t> set;
    const uint64_t count = std::vector<uint64_t>{0, 10, 4096, 30'000}[random() % 4];
    for (uint64_t idx = 0; idx < count; ++idx) set.insert(static_cast<uint32_t>(random() % kEnd));
    if (random() % 2 == 0) {
      const auto begin = static_cast<uint32_t>(random() % (kEnd / 2));
      for (uint32_t idx = begin; idx < begin + 70'000; ++idx) set.insert(idx);
    }
    return std::vector<uint32_t>(set.begin(), set.end());
  };
  for (int round = 0; round < (test::kSanitized ? 6 : 20); ++round) {
    const std::vector<uint32_t> a = make();
    const std::vector<uint32_t> b = make();
    OrdinalBitmap set = OrdinalBitmap::FromSorted(a);
    OrdinalBitmap other = OrdinalBitmap::FromSorted(b);
    if (round % 2 == 0) set.Compress();
    if (round % 3 == 0) other.Compress();
    EXPECT_EQ(set.ToVector(), a);
    std::vector<uint64_t> mask(a.empty() ? 0 : a.back() / 64 + 1);
    for (const uint32_t ordinal : a) mask[ordinal / 64] |= uint64_t{1} << (ordinal % 64);
    EXPECT_EQ(OrdinalBitmap::FromMask(mask), OrdinalBitmap::FromSorted(a));
    EXPECT_EQ(set.ToMask(a.empty() ? 0 : a.back() + 1), mask);
    EXPECT_EQ(set.size(), static_cast<int64_t>(a.size()));
    EXPECT_EQ(set.Contains(7), std::binary_search(a.begin(), a.end(), 7U));
    const auto expect = [&](auto operation, const std::vector<uint32_t>& expected) {
      OrdinalBitmap result = set.Clone();
      operation(result);
      EXPECT_EQ(result.ToVector(), expected);
      EXPECT_EQ(result, OrdinalBitmap::FromSorted(expected));
    };
    std::vector<uint32_t> expected;
    std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(expected));
    expect([&](OrdinalBitmap& result) { result.IntersectWith(other); }, expected);
    expected.clear();
    std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(expected));
    expect([&](OrdinalBitmap& result) { result.UniteWith(other); }, expected);
    expected.clear();
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(expected));
    expect([&](OrdinalBitmap& result) { result.Subtract(other); }, expected);
    expected.clear();
    const std::vector<uint32_t> all = OrdinalBitmap::All(kEnd).ToVector();
    std::set_difference(all.begin(), all.end(), a.begin(), a.end(), std::back_inserter(expected));
    expect([&](OrdinalBitmap& result) { result.Complement(kEnd); }, expected);
    EXPECT_EQ(set.ToVector(), a) << "operations on a copy leave it alone";
  }
}

TEST(OrdinalBitmapTest, RunsTakeLittleMemory) {
  std::vector<uint32_t> run(1'000'000);
  std::iota(run.begin(), run.end(), 5U);
  OrdinalBitmap set = OrdinalBitmap::FromSorted(run);
  EXPECT_GT(set.memory_bytes(), 100'000);
  set.Compress();
  EXPECT_LT(set.memory_bytes(), 4096);
  EXPECT_EQ(set.ToVector(), run);
}

}  // namespace
}  // namespace maxsim::collection
