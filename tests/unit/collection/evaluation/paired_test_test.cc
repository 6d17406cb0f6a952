#include "collection/evaluation/paired_test.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace maxsim::evaluation {
namespace {

// Returns `count` values for each of two systems. Value i of the second system is larger by difference(i) / 100.
template <typename Difference>
std::pair<std::vector<double>, std::vector<double>> Values(int count, Difference difference) {
  std::pair<std::vector<double>, std::vector<double>> values;
  for (int i = 0; i < count; ++i) {
    values.first.push_back((i * 37 % 100) / 100.0);
    values.second.push_back(values.first.back() + difference(i) / 100.0);
  }
  return values;
}

// The expected p-values come from SciPy 1.17.1: scipy.stats.ttest_rel(b, a), and permutation_test of the mean
// difference with permutation_type='samples' and n_resamples=inf.
TEST(ComparePairedTest, AFewQueriesHaveThePValuesOfSciPy) {
  const std::vector<double> a = {0.31, 0.52, 0.00, 0.77, 0.64, 0.25, 0.90, 0.43, 0.18, 0.55, 0.70, 0.36};
  const std::vector<double> b = {0.45, 0.52, 0.13, 0.71, 0.80, 0.38, 0.95, 0.41, 0.40, 0.55, 0.92, 0.30};
  const PairedTest test = ComparePaired(a, b, 0);
  EXPECT_EQ(test.num_queries, 12);
  EXPECT_EQ(test.num_wins, 7);
  EXPECT_EQ(test.num_ties, 2);
  EXPECT_EQ(test.num_losses, 3);
  EXPECT_NEAR(test.mean_difference, 0.91 / 12, 1e-12);
  EXPECT_TRUE(test.is_exact);
  EXPECT_DOUBLE_EQ(test.p_randomisation, 0.033203125);
  ASSERT_TRUE(test.p_t.has_value());
  EXPECT_NEAR(*test.p_t, 0.027075570609249523, 1e-12);
  // The other direction has the same p-values.
  const PairedTest other = ComparePaired(b, a, 0);
  EXPECT_EQ(other.num_wins, 3);
  EXPECT_NEAR(other.mean_difference, -0.91 / 12, 1e-12);
  EXPECT_DOUBLE_EQ(other.p_randomisation, test.p_randomisation);
  EXPECT_NEAR(*other.p_t, *test.p_t, 1e-15);
}

// The expected p-value is from SciPy's permutation_test, which counts all 2^20 assignments of signs.
TEST(ComparePairedTest, TwentyDifferencesAreCountedExactly) {
  const auto [a, b] = Values(20, [](int i) { return i * 7 % 11 - 4; });
  const PairedTest test = ComparePaired(a, b, 0);
  EXPECT_TRUE(test.is_exact);
  EXPECT_DOUBLE_EQ(test.p_randomisation, 0.2649650573730469);
  EXPECT_NEAR(*test.p_t, 0.24065252434982076, 1e-12);
}

// In hundredths, all differences are integers. So the exact p-value was computed from the distribution of their signed
// sums by dynamic programming. SciPy's own test with 100,000 random draws gives 0.1426.
TEST(ComparePairedTest, DrawnSignsComeCloseToTheExactPValue) {
  constexpr double kExact = 0.14394011879630852;
  const auto [a, b] = Values(40, [](int i) { return i * 29 % 23 - 9; });
  const PairedTest test = ComparePaired(a, b, 0);
  EXPECT_EQ(test.num_wins, 21);
  EXPECT_EQ(test.num_ties, 2);
  EXPECT_EQ(test.num_losses, 17);
  EXPECT_NEAR(test.mean_difference, 0.01625, 1e-12);
  EXPECT_NEAR(*test.p_t, 0.13832792838099442, 1e-12);
  EXPECT_FALSE(test.is_exact);
  const double deviation = std::sqrt(kExact * (1 - kExact) / static_cast<double>(kNumRandomSigns));
  for (const uint64_t seed : {0, 1, 2, 3}) {
    const double p = ComparePaired(a, b, seed).p_randomisation;
    EXPECT_NEAR(p, kExact, 4 * deviation) << "seed " << seed;
    EXPECT_EQ(ComparePaired(a, b, seed).p_randomisation, p) << "the seed alone says what is drawn";
  }
  EXPECT_NE(ComparePaired(a, b, 1).p_randomisation, test.p_randomisation);
}

TEST(ComparePairedTest, OneMoreDifferenceThanAreCountedIsDrawn) {
  // All differences have the same sign. Only 2 of the 2^21 assignments of signs have a mean as far from 0, so random
  // draws almost never meet one of them.
  const auto [a, b] = Values(21, [](int i) { return i * 7 % 11 + 1; });
  const PairedTest test = ComparePaired(a, b, 0);
  EXPECT_FALSE(test.is_exact);
  EXPECT_GE(test.p_randomisation, 1.0 / 100001) << "the observed assignment counts itself";
  EXPECT_LE(test.p_randomisation, 3.0 / 100001);
  // Only queries with a difference count towards the limit for exact counting.
  auto [c, d] = Values(1000, [](int i) { return i < 20 ? i * 7 % 11 + 1 : 0; });
  const PairedTest few = ComparePaired(c, d, 0);
  EXPECT_TRUE(few.is_exact);
  EXPECT_DOUBLE_EQ(few.p_randomisation, 2.0 / (1 << 20));
  EXPECT_EQ(few.num_ties, 980);
}

TEST(ComparePairedTest, EverySignIsDrawn) {
  // The first 64 differences of 1/100 cancel each other out, the last 16 do not. The exact p-value is that of 80 fair
  // coins: 2^-80 times the sum of binomial(80, n) over |2 n - 80| >= 16. If the test drew only 64 signs, its p-value
  // would be above 0.5.
  const auto [a, b] = Values(80, [](int i) { return i < 64 && i % 2 == 0 ? -1 : 1; });
  constexpr double kExact = 0.09291188222054621;
  EXPECT_NEAR(ComparePaired(a, b, 0).p_randomisation, kExact, 4 * std::sqrt(kExact * (1 - kExact) / 100000));
}

TEST(ComparePairedTest, WithoutADifferenceNothingIsSignificant) {
  const std::vector<double> values = {0.1, 0.2, 0.3};
  const std::vector<double> rounded = {0.1 + 1e-12, 0.2, 0.3 - 1e-12};
  for (const std::vector<double>& other : {values, rounded}) {
    const PairedTest test = ComparePaired(values, other, 0);
    EXPECT_EQ(test.num_ties, 3);
    EXPECT_EQ(test.mean_difference, 0);
    EXPECT_EQ(test.p_randomisation, 1);
    EXPECT_FALSE(test.p_t.has_value());
  }
}

TEST(ComparePairedTest, NoneOneAndTwoQueries) {
  const PairedTest none = ComparePaired({}, {}, 0);
  EXPECT_EQ(none.num_queries, 0);
  EXPECT_EQ(none.mean_difference, 0);
  EXPECT_EQ(none.p_randomisation, 1);
  EXPECT_FALSE(none.p_t.has_value());
  const PairedTest one = ComparePaired({0.25}, {0.75}, 0);
  EXPECT_EQ(one.num_wins, 1);
  EXPECT_EQ(one.p_randomisation, 1) << "both signs are as far from 0";
  EXPECT_FALSE(one.p_t.has_value());
  const PairedTest two = ComparePaired({0.25, 0.25}, {0.75, 0.75}, 0);
  EXPECT_EQ(two.p_randomisation, 0.5);
  EXPECT_EQ(two.p_t, 0.0) << "the differences do not vary";
}

}  // namespace
}  // namespace maxsim::evaluation
