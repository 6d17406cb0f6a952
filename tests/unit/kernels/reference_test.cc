// Tests the reference implementation, with which all others are compared, against numbers worked out by hand.
#include "kernels/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/quantize.h"
#include "tests/support/contract/contract_runner.h"
#include "tests/support/values/random_documents.h"

namespace maxsim {
namespace {

// Makes rows of dimension 8. The first columns are given, the others are zero.
test::TokenMatrix Matrix(const std::vector<std::vector<float>>& rows) {
  test::TokenMatrix matrix(ScalarType::kF32, 8, static_cast<int64_t>(rows.size()));
  for (size_t token = 0; token < rows.size(); ++token) {
    for (size_t column = 0; column < rows[token].size(); ++column) {
      matrix.Set(static_cast<int64_t>(token), static_cast<int32_t>(column), rows[token][column]);
    }
  }
  return matrix;
}

struct HandMade {
  test::RandomDocuments documents = {Matrix({{1, 0}, {0, 2}, {-3, 1}}), {0, 2, 3}};
  test::RandomQuery query = {Matrix({{1, 1}, {2, -1}}), {}};
};

TEST(ReferenceTest, ScoreIsTheSumOfMaxima) {
  const HandMade data;
  const std::vector<ReferenceScore> scores = ReferenceScores(data.documents.view(), data.query.view(1));
  ASSERT_EQ(scores.size(), 2u);
  // Query token (1, 1) has the products 1 and 2 with the first document, and -2 with the second. Query token (2, -1)
  // has the products 2 and -2, and -7.
  EXPECT_EQ(scores[0].score, 2 + 2);
  EXPECT_EQ(scores[1].score, -2 - 7);
  // With absolute values, query token (1, 1) has the products 1 and 2 with the first document, and 4 with the second.
  // Query token (2, -1) has the products 2 and 2, and 7.
  EXPECT_EQ(scores[0].magnitude, 2 + 2);
  EXPECT_EQ(scores[1].magnitude, 4 + 7);
}

TEST(ReferenceTest, WeightsScaleMaxima) {
  HandMade data;
  data.query.weights = {-1, 0.5f};
  const std::vector<ReferenceScore> scores = ReferenceScores(data.documents.view(), data.query.view(1));
  EXPECT_EQ(scores[0].score, -2 + 1);
  EXPECT_EQ(scores[0].magnitude, 2 + 1);
  EXPECT_EQ(scores[1].score, 2 - 3.5);
  EXPECT_EQ(scores[1].magnitude, 4 + 3.5);
}

TEST(ReferenceTest, CandidatesAreScoredInListOrder) {
  const HandMade data;
  const std::vector<uint32_t> ordinals = {1, 0, 1};
  const std::vector<ReferenceScore> scores = ReferenceScores(data.documents.view(), data.query.view(1, &ordinals));
  ASSERT_EQ(scores.size(), 3u);
  EXPECT_EQ(scores[0].score, -9);
  EXPECT_EQ(scores[1].score, 4);
  EXPECT_EQ(scores[2].score, -9);
}

TEST(ReferenceTest, AlignNamesTheWinningToken) {
  const HandMade data;
  const std::vector<ReferenceMatch> matches = ReferenceAlign(data.documents.view(), data.query.view(1), 0);
  ASSERT_EQ(matches.size(), 2u);
  EXPECT_EQ(matches[0].document_token, 1);
  EXPECT_EQ(matches[0].similarity, 2);
  EXPECT_EQ(matches[1].document_token, 0);
  EXPECT_EQ(matches[1].similarity, 2);
}

TEST(ReferenceTest, AlignTakesTheFirstOfEqualTokens) {
  const test::RandomDocuments documents = {Matrix({{0, 1}, {1, 0}, {1, 0}}), {0, 3}};
  const test::RandomQuery query = {Matrix({{1, 0}}), {}};
  EXPECT_EQ(ReferenceAlign(documents.view(), query.view(1), 0)[0].document_token, 1);
}

TEST(ReferenceTest, SimilaritiesHaveTheMatchesAsTheMaximaOfTheirRows) {
  for (const ScalarType type : {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8}) {
    const test::RandomDocuments documents = test::MakeDocuments(7, type, 40, {3, 1, 17});
    const test::RandomQuery query = test::MakeQuery(8, type, 40, 6);
    for (uint32_t document = 0; document < 3; ++document) {
      const auto num_tokens = static_cast<size_t>(documents.length(document));
      const std::vector<double> all = ReferenceSimilarities(documents.view(), query.view(1), document);
      ASSERT_EQ(all.size(), 6 * num_tokens);
      const std::vector<ReferenceMatch> matches = ReferenceAlign(documents.view(), query.view(1), document);
      for (size_t i = 0; i < 6; ++i) {
        const auto row = all.begin() + static_cast<std::ptrdiff_t>(i * num_tokens);
        const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(num_tokens));
        EXPECT_EQ(best - row, matches[i].document_token);
        EXPECT_EQ(*best, matches[i].similarity);
      }
    }
  }
}

TEST(ReferenceTest, TopKSortsByScoreThenPosition) {
  const std::vector<ReferenceScore> scores = {{1, 0}, {3, 0}, {2, 0}, {3, 0}};
  const std::vector<ReferenceHit> hits = ReferenceTopK(scores, 3);
  ASSERT_EQ(hits.size(), 3u);
  EXPECT_EQ(hits[0].position, 1u);
  EXPECT_EQ(hits[1].position, 3u);
  EXPECT_EQ(hits[2].position, 2u);
  EXPECT_EQ(hits[2].score, 2);
  EXPECT_EQ(ReferenceTopK(scores, 100).size(), 4u);
}

// Computes the expected scores from the INT8 elements, each multiplied by its scale.
TEST(ReferenceTest, QuantizedDocumentsAreScoredAsTheyAndTheQueryAreQuantized) {
  constexpr int32_t kDim = 50, kTokens = 7;
  test::RandomDocuments documents = test::MakeDocuments(3, ScalarType::kI8, kDim, {1, 6, 30});
  test::RandomQuery query = test::MakeQuery(4, ScalarType::kI8, kDim, kTokens);
  query.weights = {1, -2, 0.5f, 0, 3, 1, 1};
  std::vector<int8_t> elements(kTokens * kDim);
  std::vector<float> scales(kTokens);
  QuantizeQuery(documents.rotation_seed, kDim, static_cast<const float*>(query.tokens.data()), elements.data(),
                absl::MakeSpan(scales));
  const std::vector<ReferenceScore> scores = ReferenceScores(documents.view(), query.view(1));
  const std::vector<float> rounded = test::QuantizedScores(documents, query.view(1));
  for (uint32_t document = 0; document < 3; ++document) {
    const std::vector<ReferenceMatch> matches = ReferenceAlign(documents.view(), query.view(1), document);
    double score = 0;
    for (int32_t token = 0; token < kTokens; ++token) {
      int64_t best = std::numeric_limits<int64_t>::min();
      int32_t best_token = -1;
      for (int64_t row = 0; row < documents.length(document); ++row) {
        const std::vector<float> values = documents.tokens.Row(documents.offsets[document] + row);
        int64_t sum = 0;
        for (int32_t column = 0; column < kDim; ++column) {
          sum += elements[token * kDim + column] * static_cast<int64_t>(values[column]);
        }
        if (sum > best) best_token = static_cast<int32_t>(row);
        best = std::max(best, sum);
      }
      const double similarity = static_cast<double>(scales[token]) * static_cast<double>(best) *
                                static_cast<double>(documents.scales[document]);
      score += query.weights[token] * similarity;
      EXPECT_EQ(matches[token].document_token, best_token);
      EXPECT_NEAR(matches[token].similarity, similarity, 1e-12);
    }
    EXPECT_NEAR(scores[document].score, score, 1e-12);
    EXPECT_NEAR(rounded[document], score, 1e-6);
  }
}

// Rounding to INT8 changes each value of documents and queries by at most half a step, so the scores stay near those
// of the original values.
TEST(ReferenceTest, QuantizedScoresAreNearThoseOfTheValues) {
  for (int32_t dim : {8, 48, 100, 128}) {
    const test::RandomDocuments values = test::MakeDocuments(5, ScalarType::kF32, dim, {40, 3, 80});
    const test::RandomDocuments quantized = test::Stored(values, ScalarType::kI8);
    const test::RandomQuery query = test::MakeQuery(6, ScalarType::kI8, dim, 20);
    const std::vector<ReferenceScore> exact = ReferenceScores(values.view(), query.view(1));
    const std::vector<ReferenceScore> scores = ReferenceScores(quantized.view(), query.view(1));
    for (size_t document = 0; document < exact.size(); ++document) {
      EXPECT_NEAR(scores[document].score, exact[document].score, 0.02 * exact[document].magnitude) << "d " << dim;
      EXPECT_NE(scores[document].score, exact[document].score);
    }
  }
}

TEST(ReferenceTest, UnrotatingARotatedRowGivesItBack) {
  for (int32_t dim : {8, 9, 50, 128, 300, 4096}) {
    const std::vector<float> values = test::RandomTokens(7, ScalarType::kF32, dim, 1).Row(0);
    std::vector<float> row = values;
    Rotate(11, absl::MakeSpan(row));
    EXPECT_NE(row, values);
    Unrotate(11, absl::MakeSpan(row));
    for (int32_t column = 0; column < dim; ++column) EXPECT_NEAR(row[column], values[column], 1e-6) << "d " << dim;
  }
}

// The reference spreads large inputs over threads. The scores must equal those of the documents scored one by one.
TEST(ReferenceTest, ThreadsDoNotChangeTheNumbers) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  const test::RandomDocuments documents =
      test::MakeDocuments(seed, ScalarType::kF16, 64, test::RandomLengths(seed, 300, 1, 60));
  const test::RandomQuery query = test::MakeQuery(seed + 1, ScalarType::kF16, 64, 64);
  const std::vector<ReferenceScore> together = ReferenceScores(documents.view(), query.view(1));
  for (uint32_t ordinal = 0; ordinal < together.size(); ++ordinal) {
    const std::vector<uint32_t> one = {ordinal};
    const std::vector<ReferenceScore> alone = ReferenceScores(documents.view(), query.view(1, &one));
    ASSERT_EQ(alone[0].score, together[ordinal].score);
    ASSERT_EQ(alone[0].magnitude, together[ordinal].magnitude);
  }
}

}  // namespace
}  // namespace maxsim
