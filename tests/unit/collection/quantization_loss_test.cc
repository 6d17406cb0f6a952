#include "collection/quantization_loss.h"

#include <cmath>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "kernels/quantize.h"

namespace maxsim::collection {
namespace {

constexpr int32_t kDim = 64;
constexpr int32_t kTokens = 20;

// Returns a document whose tokens have norm 1, except the first, whose norm is `factor`.
std::vector<float> DocumentWithOutlier(float factor) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> rows(kTokens * kDim);
  for (size_t token = 0; token < kTokens; ++token) {
    float squares = 0;
    for (size_t column = 0; column < kDim; ++column) {
      rows[token * kDim + column] = normal(random);
      squares += rows[token * kDim + column] * rows[token * kDim + column];
    }
    const float length = (token == 0 ? factor : 1) / std::sqrt(squares);
    for (size_t column = 0; column < kDim; ++column) rows[token * kDim + column] *= length;
  }
  return rows;
}

QuantizationLoss LossWithOutlier(float factor, bool with_values = true) {
  std::vector<float> rows = DocumentWithOutlier(factor);
  std::vector<int8_t> elements(rows.size());
  QuantizeDocument(0, kDim, absl::MakeSpan(rows), elements.data());
  return LossOf(elements.data(), with_values ? rows.data() : nullptr, kTokens, kDim);
}

TEST(QuantizationLossTest, TokensOfLikeLengthLoseNothing) {
  const QuantizationLoss loss = LossWithOutlier(1);
  EXPECT_EQ(loss.num_documents, 0);
  EXPECT_EQ(loss.num_tokens(), 0);
  EXPECT_EQ(LossWithOutlier(8).num_tokens(), 0);
}

TEST(QuantizationLossTest, TokensBesideAnOutlierBecomeZerosOrCoarse) {
  const QuantizationLoss zeros = LossWithOutlier(1e4f);
  EXPECT_EQ(zeros.num_documents, 1);
  EXPECT_EQ(zeros.num_zeroed, kTokens - 1);
  EXPECT_EQ(zeros.num_coarse, 0);
  EXPECT_EQ(Describe(zeros), "19 tokens of 1 document (19 became zeros)");
  const QuantizationLoss coarse = LossWithOutlier(60);
  EXPECT_EQ(coarse.num_zeroed, 0);
  EXPECT_EQ(coarse.num_coarse, kTokens - 1);
  EXPECT_EQ(Describe(coarse), "19 tokens of 1 document (of 19 rounding took more than 25 % of the length)");
}

TEST(QuantizationLossTest, TheStoredElementsTellTheSame) {
  for (const float factor : {1.0f, 8.0f, 60.0f, 300.0f, 1e4f}) {
    const QuantizationLoss written = LossWithOutlier(factor), stored = LossWithOutlier(factor, false);
    EXPECT_EQ(written.num_zeroed, stored.num_zeroed) << factor;
    EXPECT_EQ(written.num_coarse, stored.num_coarse) << factor;
  }
}

// LossOf estimates a token's rounding error from its stored integers. The estimate must agree with the actual error.
TEST(QuantizationLossTest, ATokenThatIsCountedLosesAboutTheShareAtLeast) {
  for (const float factor : {1.0f, 8.0f, 20.0f, 40.0f, 60.0f, 100.0f}) {
    std::vector<float> rows = DocumentWithOutlier(factor);
    std::vector<int8_t> elements(rows.size());
    const float scale = QuantizeDocument(0, kDim, absl::MakeSpan(rows), elements.data());
    for (size_t token = 1; token < kTokens; ++token) {
      const size_t begin = token * kDim;
      double error = 0, squares = 0;
      for (size_t idx = begin; idx < begin + kDim; ++idx) {
        error += std::pow(rows[idx] - scale * elements[idx], 2);
        squares += std::pow(rows[idx], 2);
      }
      const bool counted = LossOf(elements.data() + begin, rows.data() + begin, 1, kDim).num_tokens() > 0;
      const double share = std::sqrt(error / squares);
      EXPECT_TRUE(counted ? share > 0.8 * kMaxRoundingShare : share < 1.25 * kMaxRoundingShare) << factor << share;
    }
  }
}

TEST(QuantizationLossTest, TokensThatWereZerosBeforeHaveLostNothing) {
  std::vector<float> rows = DocumentWithOutlier(1);
  std::fill_n(rows.begin() + kDim, kDim, 0.0f);
  std::vector<int8_t> elements(rows.size());
  QuantizeDocument(0, kDim, absl::MakeSpan(rows), elements.data());
  EXPECT_EQ(LossOf(elements.data(), rows.data(), kTokens, kDim).num_tokens(), 0);
  EXPECT_EQ(LossOf(elements.data(), nullptr, kTokens, kDim).num_zeroed, 1);
}

}  // namespace
}  // namespace maxsim::collection
