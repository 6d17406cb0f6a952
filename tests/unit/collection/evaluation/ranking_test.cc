#include "collection/evaluation/ranking.h"

#include <cmath>

#include "gtest/gtest.h"

namespace maxsim::evaluation {
namespace {

using Ids = std::vector<std::string>;

// The documents have grades 3, 2, 1 and 0. The ideal gain, by hand, is 3 / log2(2) + 2 / log2(3) + 1 / log2(4) =
// 4.7618595071.
const Grades kGrades = {{"a", 3}, {"b", 2}, {"c", 1}, {"z", 0}};
constexpr double kIdeal = 4.7618595071429146;

TEST(NdcgTest, MatchesHandComputation) {
  EXPECT_DOUBLE_EQ(NdcgAt(Ids{"a", "b", "c"}, kGrades, 10), 1.0);
  // The gain of c, x, a is 1 + 0 + 3 / log2(4) = 2.5.
  EXPECT_NEAR(NdcgAt(Ids{"c", "x", "a"}, kGrades, 10), 2.5 / kIdeal, 1e-12);
  // Together, the first two documents gain 1: c has grade 1, and x has no grade. The ideal gain of two documents is
  // that of a and b, 3 + 2 / log2(3).
  EXPECT_NEAR(NdcgAt(Ids{"c", "x", "a"}, kGrades, 2), 1.0 / (3 + 2 / std::log2(3.0)), 1e-12);
  EXPECT_EQ(NdcgAt(Ids{"x", "z"}, kGrades, 10), 0);
}

TEST(NdcgTest, NothingRelevantIsZero) {
  EXPECT_EQ(NdcgAt(Ids{"a"}, {}, 10), 0);
  EXPECT_EQ(NdcgAt(Ids{"a"}, {{"a", 0}}, 10), 0);
  EXPECT_EQ(NdcgAt(Ids{}, kGrades, 10), 0);
}

TEST(NdcgTest, NegativeGradesGainNothing) {
  EXPECT_DOUBLE_EQ(NdcgAt(Ids{"bad", "a"}, {{"a", 1}, {"bad", -2}}, 10), 1 / std::log2(3.0));
}

TEST(ReciprocalRankTest, FirstRelevantWithinTheCutOff) {
  EXPECT_DOUBLE_EQ(ReciprocalRankAt(Ids{"x", "z", "b", "a"}, kGrades, 10), 1.0 / 3);
  EXPECT_EQ(ReciprocalRankAt(Ids{"x", "z", "b", "a"}, kGrades, 2), 0);
}

TEST(RecallTest, RelevantFoundOverAllRelevant) {
  EXPECT_DOUBLE_EQ(RecallAt(Ids{"x", "b", "z", "a"}, kGrades, 4), 2.0 / 3);
  EXPECT_DOUBLE_EQ(RecallAt(Ids{"x", "b", "z", "a"}, kGrades, 3), 1.0 / 3);
  EXPECT_EQ(RecallAt(Ids{"a"}, {{"a", 0}}, 3), 0);
}

TEST(QualityTest, MeansOverQueries) {
  Quality sum;
  sum.Add(Ids{"a", "b", "c"}, kGrades, 1, 3);
  sum.Add(Ids{"x", "a"}, {{"a", 1}}, 1, 2);
  const Quality mean = sum.Mean();
  EXPECT_EQ(mean.num_queries, 2);
  EXPECT_DOUBLE_EQ(mean.ndcg, 0.5);
  EXPECT_DOUBLE_EQ(mean.recall, (1.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(mean.recall_deep, 1.0);
  EXPECT_DOUBLE_EQ(mean.reciprocal_rank, 0.75);
  EXPECT_EQ(Quality().Mean().ndcg, 0);
}

TEST(QualityTest, SumsOfQueriesAdd) {
  Quality sum, first, second;
  sum.Add(Ids{"a", "b", "c"}, kGrades, 1, 3);
  sum.Add(Ids{"x", "a"}, {{"a", 1}}, 1, 2);
  first.Add(Ids{"a", "b", "c"}, kGrades, 1, 3);
  second.Add(Ids{"x", "a"}, {{"a", 1}}, 1, 2);
  first.Add(second);
  EXPECT_EQ(first.num_queries, 2);
  EXPECT_EQ(first.ndcg, sum.ndcg);
  EXPECT_EQ(first.recall, sum.recall);
  EXPECT_EQ(first.recall_deep, sum.recall_deep);
  EXPECT_EQ(first.reciprocal_rank, sum.reciprocal_rank);
}

}  // namespace
}  // namespace maxsim::evaluation
