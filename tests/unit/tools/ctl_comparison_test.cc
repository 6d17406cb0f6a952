#include "tools/maxsimctl/comparison.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace maxsim::ctl {
namespace {

const std::vector<ReferenceScore> kTruth = {{.score = 1.0, .magnitude = 2.0},
                                            {.score = 4.0, .magnitude = 8.0},
                                            {.score = -2.0, .magnitude = 2.0},
                                            {.score = 3.0, .magnitude = 4.0}};

TEST(ComparisonTest, AnExactAnswerHasNoError) {
  Comparison c;
  c.Add(std::vector<Answered>{{4, 1}, {3, 3}}, kTruth, 2);
  EXPECT_EQ(c.error_by_magnitude, 0);
  EXPECT_EQ(c.error_by_score, 0);
  EXPECT_EQ(c.overlap(), 1);
  EXPECT_EQ(c.num_in_place, 2);
  EXPECT_EQ(c.num_results, 2);
}

TEST(ComparisonTest, ErrorsAreRelativeToMagnitudeAndToScore) {
  Comparison c;
  c.Add(std::vector<Answered>{{4.5f, 1}, {3, 3}, {1, 0}, {-2.25f, 2}}, kTruth, 10);
  EXPECT_DOUBLE_EQ(c.error_by_magnitude, 0.125);  // 0.25 / 2
  EXPECT_DOUBLE_EQ(c.error_by_score, 0.125);
  EXPECT_EQ(c.num_expected, 4) << "top_k beyond the candidates expects all of them";
}

TEST(ComparisonTest, AMissedDocumentLowersTheOverlap) {
  Comparison c;
  c.Add(std::vector<Answered>{{4, 1}, {1, 0}}, kTruth, 2);
  EXPECT_EQ(c.overlap(), 0.5);
  EXPECT_EQ(c.num_in_place, 1);
  EXPECT_EQ(c.num_near_ties, 0);
}

TEST(ComparisonTest, ADocumentReturnedTwiceCountsOnce) {
  Comparison c;
  c.Add(std::vector<Answered>{{4, 1}, {4, 1}}, kTruth, 2);
  EXPECT_EQ(c.overlap(), 0.5);
}

TEST(ComparisonTest, AShortAnswerLowersTheOverlap) {
  Comparison c;
  c.Add({}, kTruth, 2);
  EXPECT_EQ(c.overlap(), 0);
  EXPECT_EQ(c.num_expected, 2);
}

TEST(ComparisonTest, ASwapIsOutOfPlaceButShared) {
  Comparison c;
  c.Add(std::vector<Answered>{{3, 3}, {4, 1}}, kTruth, 2);
  EXPECT_EQ(c.overlap(), 1);
  EXPECT_EQ(c.num_in_place, 0);
}

TEST(ComparisonTest, DocumentsBehindALowerScoreAreDisordered) {
  Comparison c;
  c.Add(std::vector<Answered>{{3, 3}, {4, 1}, {4, 1}, {1, 0}}, kTruth, 4);
  EXPECT_EQ(c.num_disordered, 1);
  c.Add(std::vector<Answered>{{4, 1}, {3, 3}}, kTruth, 2);
  EXPECT_EQ(c.num_disordered, 1);
}

TEST(ComparisonTest, NearTiesAtTheLastRankAreCounted) {
  const std::vector<ReferenceScore> truth = {{1.0, 1.0}, {1.0 - 1e-7, 1.0}, {0.5, 1.0}};
  Comparison near;
  near.Add(std::vector<Answered>{{1.0f, 1}}, truth, 1);
  EXPECT_EQ(near.num_near_ties, 1);
  Comparison far;
  far.Add(std::vector<Answered>{{0.5f, 2}}, truth, 1);
  EXPECT_EQ(far.num_near_ties, 0);
}

TEST(ComparisonTest, NonFiniteScoresAreInfiniteErrors) {
  for (const float score : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Comparison c;
    c.Add(std::vector<Answered>{{score, 1}}, kTruth, 1);
    EXPECT_TRUE(std::isinf(c.error_by_magnitude)) << score;
  }
}

TEST(ComparisonTest, QueriesAddUp) {
  Comparison c;
  c.Add(std::vector<Answered>{{4, 1}}, kTruth, 1);
  c.Add(std::vector<Answered>{{3, 3}}, kTruth, 1);
  EXPECT_EQ(c.num_queries, 2);
  EXPECT_EQ(c.overlap(), 0.5);
  EXPECT_EQ(Comparison().overlap(), 1);
}

}  // namespace
}  // namespace maxsim::ctl
