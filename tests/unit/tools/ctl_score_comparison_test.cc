#include "tools/maxsimctl/evaluate/score_comparison.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace maxsim::ctl {
namespace {

const std::vector<ReferenceScore> kReference = {{.score = 1.0, .magnitude = 2.0},
                                                {.score = 4.0, .magnitude = 8.0},
                                                {.score = -2.0, .magnitude = 2.0},
                                                {.score = 3.0, .magnitude = 4.0}};

TEST(ScoreComparisonTest, AnExactAnswerHasNoError) {
  ScoreComparison c;
  c.Add(std::vector<ReturnedDocument>{{4, 1}, {3, 3}}, kReference, 2);
  EXPECT_EQ(c.error_by_magnitude, 0);
  EXPECT_EQ(c.error_by_score, 0);
  EXPECT_EQ(c.overlap(), 1);
  EXPECT_EQ(c.num_in_place, 2);
  EXPECT_EQ(c.num_results, 2);
}

TEST(ScoreComparisonTest, ErrorsAreRelativeToMagnitudeAndToScore) {
  ScoreComparison c;
  c.Add(std::vector<ReturnedDocument>{{4.5f, 1}, {3, 3}, {1, 0}, {-2.25f, 2}}, kReference, 10);
  EXPECT_DOUBLE_EQ(c.error_by_magnitude, 0.125);  // 0.25 / 2
  EXPECT_DOUBLE_EQ(c.error_by_score, 0.125);
  EXPECT_EQ(c.num_expected, 4) << "top_k beyond the candidates expects all of them";
}

TEST(ScoreComparisonTest, AMissedDocumentLowersTheOverlap) {
  ScoreComparison c;
  c.Add(std::vector<ReturnedDocument>{{4, 1}, {1, 0}}, kReference, 2);
  EXPECT_EQ(c.overlap(), 0.5);
  EXPECT_EQ(c.num_in_place, 1);
  EXPECT_EQ(c.num_near_ties, 0);
}

TEST(ScoreComparisonTest, ADocumentReturnedTwiceCountsOnce) {
  ScoreComparison c;
  c.Add(std::vector<ReturnedDocument>{{4, 1}, {4, 1}}, kReference, 2);
  EXPECT_EQ(c.overlap(), 0.5);
}

TEST(ScoreComparisonTest, AShortAnswerLowersTheOverlap) {
  ScoreComparison c;
  c.Add({}, kReference, 2);
  EXPECT_EQ(c.overlap(), 0);
  EXPECT_EQ(c.num_expected, 2);
}

TEST(ScoreComparisonTest, ASwapIsOutOfPlaceButShared) {
  ScoreComparison c;
  c.Add(std::vector<ReturnedDocument>{{3, 3}, {4, 1}}, kReference, 2);
  EXPECT_EQ(c.overlap(), 1);
  EXPECT_EQ(c.num_in_place, 0);
}

TEST(ScoreComparisonTest, DocumentsBehindALowerScoreAreDisordered) {
  ScoreComparison c;
  c.Add(std::vector<ReturnedDocument>{{3, 3}, {4, 1}, {4, 1}, {1, 0}}, kReference, 4);
  EXPECT_EQ(c.num_disordered, 1);
  c.Add(std::vector<ReturnedDocument>{{4, 1}, {3, 3}}, kReference, 2);
  EXPECT_EQ(c.num_disordered, 1);
}

TEST(ScoreComparisonTest, NearTiesAtTheLastRankAreCounted) {
  const std::vector<ReferenceScore> reference = {{1.0, 1.0}, {1.0 - 1e-7, 1.0}, {0.5, 1.0}};
  ScoreComparison near;
  near.Add(std::vector<ReturnedDocument>{{1.0f, 1}}, reference, 1);
  EXPECT_EQ(near.num_near_ties, 1);
  ScoreComparison far;
  far.Add(std::vector<ReturnedDocument>{{0.5f, 2}}, reference, 1);
  EXPECT_EQ(far.num_near_ties, 0);
}

TEST(ScoreComparisonTest, NonFiniteScoresAreInfiniteErrors) {
  for (const float score : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    ScoreComparison c;
    c.Add(std::vector<ReturnedDocument>{{score, 1}}, kReference, 1);
    EXPECT_TRUE(std::isinf(c.error_by_magnitude)) << score;
  }
}

TEST(ScoreComparisonTest, QueriesAddUp) {
  ScoreComparison c;
  c.Add(std::vector<ReturnedDocument>{{4, 1}}, kReference, 1);
  c.Add(std::vector<ReturnedDocument>{{3, 3}}, kReference, 1);
  EXPECT_EQ(c.num_queries, 2);
  EXPECT_EQ(c.overlap(), 0.5);
  EXPECT_EQ(ScoreComparison().overlap(), 1);
}

}  // namespace
}  // namespace maxsim::ctl
