#include "kernels/topk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/values/random_documents.h"

namespace maxsim {
namespace {

constexpr int32_t kSizes[] = {1, 2, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025, 3000};
constexpr int32_t kKs[] = {1, 2, 31, 32, 33, 63, 64, 65, 512, 1024, 10000};

// Returns `count` results with `distinct` different scores, in random order.
std::vector<Scored> RandomResults(uint64_t seed, int32_t count, int32_t distinct) {
  std::mt19937_64 generator(seed);
  std::vector<Scored> results(count);
  for (int32_t idx = 0; idx < count; ++idx) {
    results[idx] = {static_cast<float>(generator() % distinct) - 1.0f, static_cast<uint32_t>(idx)};
  }
  std::shuffle(results.begin(), results.end(), generator);
  return results;
}

std::vector<Scored> SortedBest(std::vector<Scored> results, int32_t k) {
  std::sort(results.begin(), results.end(), RanksBefore);
  results.resize(std::min<size_t>(results.size(), k));
  return results;
}

// Calls check(results, k) for all pairs of result count and k in kSizes, with all, many and no scores equal.
template <typename Check>
void ForEveryShape(Check check) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  for (int32_t count : kSizes) {
    for (int32_t distinct : {1, 3, 1000000}) {
      const std::vector<Scored> results = RandomResults(seed + count, count, distinct);
      for (int32_t k : kKs) {
        SCOPED_TRACE(testing::Message() << "k " << k << " of " << count << ", " << distinct << " scores");
        check(results, k);
      }
    }
  }
}

TEST(TopKTest, SelectKeepsTheBestInOrder) {
  ForEveryShape([](const std::vector<Scored>& results, int32_t k) {
    std::vector<Scored> selected = results;
    SelectTopK(k, &selected);
    ASSERT_EQ(selected, SortedBest(results, k));
  });
}

TEST(TopKTest, SelectOfNothingIsNothing) {
  std::vector<Scored> none;
  SelectTopK(5, &none);
  EXPECT_TRUE(none.empty());
}

TEST(TopKTest, SelectOrdersEqualScoresByPosition) {
  std::vector<Scored> results = {{1, 9}, {2, 8}, {1, 3}, {2, 1}, {0, 0}};
  SelectTopK(3, &results);
  EXPECT_EQ(results, (std::vector<Scored>{{2, 1}, {2, 8}, {1, 3}}));
}

TEST(TopKTest, StreamedSelectionKeepsTheBest) {
  TopKSelector selector;  // one selector for all shapes, so that a Reset that forgets too little shows
  ForEveryShape([&](const std::vector<Scored>& results, int32_t k) {
    selector.Reset(k);
    for (const Scored& scored : results) selector.Push(scored);
    std::vector<Scored> kept(selector.kept().begin(), selector.kept().end());
    ASSERT_LE(kept.size(), std::max<size_t>(2 * k, 1024));
    SelectTopK(k, &kept);
    ASSERT_EQ(kept, SortedBest(results, k));
    std::vector<Scored> best = {{9, 9}};
    selector.Finish(&best);
    ASSERT_EQ(best, kept);
    selector.Clear();
    ASSERT_TRUE(selector.kept().empty());
  });
}

// All selections and merges use this order: on the host directly, on the device through integer keys.
TEST(RankOrderTest, IsByScoreDescendingThenByPosition) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<Scored> ordered = {{kInf, 9},  {2, 7},    {1, 3},  {1, 4},    {0.0f, 1},
                                       {-0.0f, 2}, {0.0f, 5}, {-1, 0}, {-kInf, 0}};
  for (size_t i = 0; i < ordered.size(); ++i) {
    for (size_t j = 0; j < ordered.size(); ++j) {
      EXPECT_EQ(RanksBefore(ordered[i], ordered[j]), i < j) << i << ", " << j;
    }
  }
}

}  // namespace
}  // namespace maxsim
