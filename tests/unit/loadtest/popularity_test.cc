#include "loadtest/random/popularity.h"

#include <array>
#include <cmath>
#include <set>
#include <utility>
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

TEST(ZipfRankTest, RanksThatBeginLaterComeAsOftenAsTheirWeights) {
  // With exponent 10, the weights of these ranks are less than 1e-20 of the first rank's. A floating-point sum that
  // contains the first rank's weight would lose them.
  for (const auto& [first, exponent] : {std::pair{uint64_t{2}, 1.0}, std::pair{uint64_t{200}, 0.0},
                                        std::pair{uint64_t{200}, 2.5}, std::pair{uint64_t{200}, 10.0}}) {
    constexpr uint64_t kRanks = 40;
    constexpr int kDraws = 200'000;
    const ZipfRank zipf(first, first + kRanks - 1, exponent);
    Random random(12);
    std::vector<int> counts(kRanks);
    for (int i = 0; i < kDraws; ++i) {
      const uint64_t rank = zipf.Sample(random);
      ASSERT_GE(rank, first);
      ASSERT_LT(rank, first + kRanks);
      ++counts[rank - first];
    }
    double sum = 0;
    for (uint64_t i = 0; i < kRanks; ++i) sum += zipf.Weight(first + i);
    for (uint64_t i = 0; i < kRanks; ++i) {
      const double expected = kDraws * zipf.Weight(first + i) / sum;
      EXPECT_NEAR(counts[i], expected, 5 * std::sqrt(expected) + 1) << first + i << ", exponent " << exponent;
    }
  }
  Random random(1);
  EXPECT_EQ(ZipfRank(1'000'000, 1'000'000, 3).Sample(random), 1'000'000u);
}

TEST(ZipfRankTest, TheSumOfWeightsIsThatOfAddingThemUp) {
  constexpr uint64_t kFirst = ZipfRank::kLeastFirstOfSum;
  for (const double exponent : {0.0, 0.5, 1.0, 1.3, 2.0, 10.0}) {
    for (const uint64_t last : {kFirst, kFirst + 1, kFirst + 2, uint64_t{1000}, uint64_t{100'000}}) {
      const ZipfRank zipf(kFirst, last, exponent);
      double sum = 0;
      for (uint64_t rank = last; rank >= kFirst; --rank) sum += zipf.Weight(rank);
      EXPECT_NEAR(zipf.TotalWeight() / sum, 1, 1e-6) << last << ", exponent " << exponent;
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
  // With exponent 6, most draws repeat a rank that was drawn before, so SampleDistinct leaves the rest to FillUp. With
  // and without FillUp, rank 3 must come before rank 4 as often as their weights say.
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

// Draws documents one by one, as the reference: each is drawn from all that are left, according to their weights.
std::vector<uint64_t> DrawOneByOne(const Popularity& popularity, double exponent, uint64_t count, Random& random) {
  std::vector<double> weights(popularity.size());
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = std::pow(static_cast<double>(i + 1), -exponent);
  std::vector<uint64_t> documents;
  while (documents.size() < count) {
    double sum = 0;
    for (const double weight : weights) sum += weight;
    double left = random.Uniform() * sum;
    size_t rank_idx = 0;
    while (rank_idx + 1 < weights.size() && (left -= weights[rank_idx]) >= 0) ++rank_idx;
    if (weights[rank_idx] == 0) continue;  // rounding can leave no weight
    weights[rank_idx] = 0;
    documents.push_back(popularity.DocumentOfRank(rank_idx + 1));
  }
  return documents;
}

TEST(PopularityTest, ASteepDrawOfManyIsThatOfDrawingOneByOne) {
  // With this exponent, 60 distinct ranks would take hundreds of draws, so FillUp chooses some of them. FillUp computes
  // an arrival time for each of the first 128 ranks, and one for all later ranks together.
  constexpr uint64_t kDocuments = 400, kCount = 60;
  constexpr int kSamples = 1000;
  constexpr double kExponent = 1.8;
  const Popularity popularity(kDocuments, kExponent, 1);
  std::vector<uint64_t> rank_of(kDocuments);
  for (uint64_t rank = 1; rank <= kDocuments; ++rank) rank_of[popularity.DocumentOfRank(rank)] = rank;
  // For each sample, computes three figures: how many of its ranks are beyond 128, the sum of their indices in the
  // sample, and how many ranks are from 20 to 60.
  const auto figures = [&](const std::vector<uint64_t>& documents) {
    std::array<double, 3> sums{};
    for (size_t idx = 0; idx < documents.size(); ++idx) {
      const uint64_t rank = rank_of[documents[idx]];
      sums[0] += rank > 128 ? 1 : 0;
      sums[1] += rank > 128 ? static_cast<double>(idx) : 0;
      sums[2] += rank >= 20 && rank <= 60 ? 1 : 0;
    }
    return sums;
  };
  Random random(21), reference(22);
  std::array<double, 3> mean{}, expected{}, square{};
  for (int i = 0; i < kSamples; ++i) {
    const std::array<double, 3> one = figures(popularity.SampleDistinct(kCount, random));
    const std::array<double, 3> other = figures(DrawOneByOne(popularity, kExponent, kCount, reference));
    for (size_t k = 0; k < mean.size(); ++k) {
      mean[k] += one[k] / kSamples;
      expected[k] += other[k] / kSamples;
      square[k] += other[k] * other[k] / kSamples;
    }
  }
  for (size_t k = 0; k < mean.size(); ++k) {
    const double deviation = std::sqrt((square[k] - expected[k] * expected[k]) * 2 / kSamples);
    EXPECT_GT(expected[k], 2);
    EXPECT_NEAR(mean[k], expected[k], 5 * deviation) << k;
  }
}

TEST(PopularityTest, NoExponentMakesADrawOfVeryManyDocumentsLong) {
  // A draw that went over all of these documents would take hours and 16 TB of memory.
  const uint64_t many = uint64_t{1} << 40;
  for (const double exponent : {0.0, 1.0, 1.5, 3.0, 6.0, 10.0}) {
    const Popularity popularity(many, exponent, 5);
    Random random(3);
    for (const uint64_t count : {uint64_t{1}, uint64_t{64}, uint64_t{65}, uint64_t{10'000}}) {
      const std::vector<uint64_t> documents = popularity.SampleDistinct(count, random);
      EXPECT_EQ(documents.size(), count);
      EXPECT_EQ(std::set<uint64_t>(documents.begin(), documents.end()).size(), count) << exponent;
    }
  }
  // With the steepest exponent, the draw has nearly the first 64 ranks. The chance that it has one beyond rank 200 is
  // 1 in 4000.
  const Popularity popularity(many, 10, 5);
  std::set<uint64_t> first;
  for (uint64_t rank = 1; rank <= 200; ++rank) first.insert(popularity.DocumentOfRank(rank));
  Random random(3);
  for (const uint64_t document : popularity.SampleDistinct(64, random)) EXPECT_TRUE(first.contains(document));
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
