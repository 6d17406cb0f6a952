#include "loadtest/popularity.h"

#include <cmath>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace maxsim::loadtest {
namespace {

TEST(ZipfRankTest, RanksComeAsOftenAsTheirWeights) {
  for (const double exponent : {0.0, 0.5, 1.0, 1.3, 2.0}) {
    constexpr uint64_t kRanks = 50;
    constexpr int kDraws = 200'000;
    const ZipfRank zipf(kRanks, exponent);
    Random random(11);
    std::vector<int> counts(kRanks + 1);
    for (int i = 0; i < kDraws; ++i) {
      const uint64_t rank = zipf.Sample(random);
      ASSERT_GE(rank, 1u);
      ASSERT_LE(rank, kRanks);
      ++counts[rank];
    }
    double sum = 0;
    for (uint64_t rank = 1; rank <= kRanks; ++rank) sum += std::pow(rank, -exponent);
    for (uint64_t rank = 1; rank <= kRanks; ++rank) {
      const double expected = kDraws * std::pow(rank, -exponent) / sum;
      EXPECT_NEAR(counts[rank], expected, 5 * std::sqrt(expected) + 1) << "rank " << rank << ", exponent " << exponent;
    }
  }
}

TEST(ZipfRankTest, OneRankAndVeryManyWork) {
  Random random(1);
  EXPECT_EQ(ZipfRank(1, 1).Sample(random), 1u);
  const uint64_t many = uint64_t{1} << 40;
  for (const double exponent : {0.0, 1.0, 3.0, 10.0}) {
    const ZipfRank zipf(many, exponent);
    for (int i = 0; i < 1000; ++i) {
      const uint64_t rank = zipf.Sample(random);
      ASSERT_TRUE(rank >= 1 && rank <= many) << rank;
    }
  }
}

TEST(PermutationTest, EveryIndexHasOneImage) {
  for (const uint64_t n : {1, 2, 3, 4, 5, 15, 16, 17, 1000, 1025}) {
    const Permutation permutation(n, 99);
    std::set<uint64_t> images;
    for (uint64_t i = 0; i < n; ++i) {
      ASSERT_LT(permutation(i), n);
      images.insert(permutation(i));
    }
    EXPECT_EQ(images.size(), n);
  }
}

TEST(PermutationTest, SeedsGiveDifferentOnesThatLeaveLittleInPlace) {
  const Permutation one(1000, 1), other(1000, 2);
  int same = 0, fixed = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    same += one(i) == other(i) ? 1 : 0;
    fixed += one(i) == i ? 1 : 0;
  }
  EXPECT_LT(same, 20);
  EXPECT_LT(fixed, 20);
}

TEST(PopularityTest, DrawsDistinctDocumentsUpToAllOfThem) {
  Random random(2);
  for (const double exponent : {0.0, 1.0, 4.0}) {
    const Popularity popularity(300, exponent, 5);
    for (const uint64_t count : {uint64_t{0}, uint64_t{1}, uint64_t{150}, uint64_t{299}, uint64_t{300}}) {
      const std::vector<uint64_t> documents = popularity.SampleDistinct(count, random);
      const std::set<uint64_t> distinct(documents.begin(), documents.end());
      EXPECT_EQ(documents.size(), count);
      EXPECT_EQ(distinct.size(), count);
      for (const uint64_t document : documents) ASSERT_LT(document, 300u);
    }
  }
}

TEST(PopularityTest, ASmallDrawFollowsTheWeightsWhicheverWayItIsDrawn) {
  // Exponent 6 leaves most draws without a new rank, so that the second way fills the list: rank 3 comes before rank 4
  // as often as its weight says in both.
  const auto third_first = [](double exponent, uint64_t count) {
    const Popularity popularity(40, exponent, 1);
    Random random(8);
    int before = 0, both = 0;
    for (int i = 0; i < 4000; ++i) {
      for (const uint64_t document : popularity.SampleDistinct(count, random)) {
        const bool third = document == popularity.DocumentOfRank(3);
        if (!third && document != popularity.DocumentOfRank(4)) continue;
        before += third ? 1 : 0;
        ++both;
        break;
      }
    }
    EXPECT_EQ(both, 4000);
    return before / 4000.0;
  };
  EXPECT_NEAR(third_first(1, 40), 4.0 / 7, 0.04);
  EXPECT_NEAR(third_first(6, 40), 4096.0 / (4096 + 729), 0.03);
}

TEST(PopularityTest, SeedsRepeat) {
  const Popularity popularity(10'000, 0.8, 3);
  Random one(4), same(4), other(5);
  const std::vector<uint64_t> documents = popularity.SampleDistinct(100, one);
  EXPECT_EQ(documents, popularity.SampleDistinct(100, same));
  EXPECT_NE(documents, popularity.SampleDistinct(100, other));
  EXPECT_NE(documents, popularity.SampleDistinct(100, one)) << "the next draw is another";
}

}  // namespace
}  // namespace maxsim::loadtest
