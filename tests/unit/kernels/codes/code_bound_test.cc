// Tests the codes of queries, and the estimates and upper bounds of scores. The exact score must not exceed its bound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "kernels/codes/code_levels.h"
#include "kernels/codes/encode.h"
#include "kernels/codes/query_codes.h"
#include "kernels/codes/reference_codes.h"
#include "kernels/limits.h"
#include "kernels/quantize.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/kernels/codes/codes_fixture.h"

namespace maxsim {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kBoundDims[] = {8, 9, 31, 33, 48, 96, 128, 129, 384, 1000, 4096};
constexpr ScalarType kBoundTypes[] = {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16, ScalarType::kI8};

class CodeBoundTest : public testing::Test {
 protected:
  const uint64_t seed_ = test::TestSeed();
  testing::ScopedTrace trace_{__FILE__, __LINE__, test::SeedTrace(seed_)};
};

// Returns the upper bound of a document's score, computed from the reference sums of its code.
float BoundOf(const CodesView& codes, const QueryCodes& query, int64_t document) {
  return UpperBound(query, ReferenceSumsOf(codes, query, document).positive, codes.scales[document],
                    codes.bounds[BoundIndex(query.planes)][document]);
}

// Checks that no exact score exceeds its upper bound. Returns the largest difference between bound and score, divided
// by the number of query tokens.
double ExpectBounded(const test::RandomDocuments& documents, const test::RandomQuery& query, bool factors, int planes) {
  const EncodedDocuments encoded = test::Encoded(documents.view(), factors);
  const CodesView codes = encoded.view();
  const QueryCodes query_codes = test::EncodedQuery(codes.shape, planes, query);
  const std::vector<double> exact = test::ExactScores(documents.view(), query);
  double widest = 0;
  for (int64_t document = 0; document < documents.num_documents(); ++document) {
    const double bound = BoundOf(codes, query_codes, document);
    EXPECT_GE(bound, exact[document]) << "document " << document;
    widest = std::max(widest, (bound - exact[document]) / query_codes.num_tokens);
  }
  return widest;
}

TEST_F(CodeBoundTest, HoldsForRandomVectors) {
  for (const int32_t dim : kBoundDims) {
    if (dim > 400 && test::kSanitized) continue;
    for (const ScalarType type : kBoundTypes) {
      const test::RandomDocuments documents =
          test::MakeDocuments(seed_, type, dim, test::RandomLengths(seed_, 6, 1, dim > 1000 ? 8 : 40));
      test::RandomQuery query = test::MakeQuery(seed_ + 1, type, dim, 9);
      for (const int planes : {1, 2, 4}) {
        for (const bool factors : {false, true}) {
          SCOPED_TRACE(testing::Message() << "d " << dim << ", " << Name(type) << ", " << planes << " planes"
                                          << (factors ? ", factors" : ""));
          query.weights.clear();
          ExpectBounded(documents, query, factors, planes);
          query.weights = test::MixedWeights(seed_, 9);
          ExpectBounded(documents, query, factors, planes);
        }
      }
    }
  }
}

TEST_F(CodeBoundTest, HoldsForNormsOfEverySize) {
  for (const float spread : {1.5f, 20.0f, 1e6f}) {
    for (const bool factors : {false, true}) {
      for (const int planes : {1, 2, 4}) {
        SCOPED_TRACE(testing::Message() << "spread " << spread << ", " << planes << " planes");
        test::RandomDocuments documents =
            test::MakeDocuments(seed_, ScalarType::kF32, 100, test::RandomLengths(seed_, 20, 1, 30));
        test::SpreadNorms(seed_, spread, &documents);
        ExpectBounded(documents, test::MakeQuery(seed_ + 1, ScalarType::kF32, 100, 7), factors, planes);
      }
    }
  }
}

TEST_F(CodeBoundTest, HoldsForVeryLargeAndVerySmallValues) {
  for (const float magnitude : {1e-38f, 1e-30f, 1e-28f, 1e-20f, 1e11f}) {
    test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF32, 64, {3, 5});
    test::RandomQuery query = test::MakeQuery(seed_ + 1, ScalarType::kF32, 64, 4);
    for (int64_t token = 0; token < 8; ++token) {
      std::vector<float> row = documents.tokens.Row(token);
      for (float& value : row) value *= magnitude;
      documents.tokens.SetRow(token, row);
    }
    for (const int planes : {1, 2, 4}) {
      SCOPED_TRACE(testing::Message() << magnitude << ", " << planes << " planes");
      ExpectBounded(documents, query, false, planes);
      ExpectBounded(documents, query, true, planes);
    }
  }
}

// Returns a token's residual, the part of the vector that its code leaves out, before rotation. Among all queries of
// one length, the estimate is most wrong for a query in this direction.
std::vector<float> ResidualOf(const test::RandomDocuments& documents, const CodesView& codes, int planes,
                              int64_t token) {
  std::vector<float> row = documents.tokens.Row(token);
  Rotate(codes.shape.rotation_seed, absl::MakeSpan(row));
  const std::vector<CodeCell> cells = StoredCells(codes, token);
  double product = 0;
  double squares = 0;
  const auto level = [&](size_t column) { return CodeLevel(planes, cells[column].positive, cells[column].magnitude); };
  for (size_t column = 0; column < row.size(); ++column) {
    product += static_cast<double>(row[column]) * level(column);
    squares += static_cast<double>(level(column)) * level(column);
  }
  for (size_t column = 0; column < row.size(); ++column) {
    row[column] = static_cast<float>(row[column] - product / squares * level(column));
  }
  Unrotate(codes.shape.rotation_seed, absl::MakeSpan(row));
  return row;
}

TEST_F(CodeBoundTest, HoldsForTheQueriesThatCodesAreWorstFor) {
  for (const int32_t dim : {8, 9, 48, 100, 128, 384}) {
    for (const bool factors : {false, true}) {
      const test::RandomDocuments documents =
          test::MakeDocuments(seed_, ScalarType::kF32, dim, test::RandomLengths(seed_, 8, 1, 12));
      const EncodedDocuments encoded = test::Encoded(documents.view(), factors);
      for (const int planes : {1, 2, 4}) {
        SCOPED_TRACE(testing::Message() << "d " << dim << ", " << planes << " planes");
        // The query vectors are the residual plus `along` times the token's vector: from the residual alone (0) to
        // practically the vector alone (1e6).
        for (const float along : {0.0f, 0.3f, 1.0f, 3.0f, 1e6f, -1.0f}) {
          test::RandomQuery query = test::MakeQuery(seed_, ScalarType::kF32, dim, 3);
          for (int64_t token = 0; token < 3; ++token) {
            std::vector<float> row = ResidualOf(documents, encoded.view(), planes, token);
            const std::vector<float> vector = documents.tokens.Row(token);
            for (size_t column = 0; column < row.size(); ++column) row[column] += along * vector[column];
            query.tokens.SetRow(token, row);
          }
          ExpectBounded(documents, query, factors, planes);
          query.weights = {1, -2, 0.5f};
          ExpectBounded(documents, query, factors, planes);
        }
      }
    }
  }
}

// For a query in the plane of a token's vector and its code, on the vector's side, the exact score reaches the upper
// bound. So a bound that is a few percent too small fails here.
TEST_F(CodeBoundTest, TouchesTheScoresOfTheWorstQueries) {
  for (const int32_t dim : {48, 128, 384}) {
    for (const bool factors : {false, true}) {
      const test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF32, dim, {1, 1, 1});
      const EncodedDocuments encoded = test::Encoded(documents.view(), factors);
      for (const int planes : {1, 2, 4}) {
        for (const float along : {0.0f, 0.05f, 0.3f, 1.0f}) {
          SCOPED_TRACE(testing::Message() << "d " << dim << ", " << planes << " planes, along " << along);
          for (int64_t document = 0; document < 3; ++document) {
            std::vector<float> row = ResidualOf(documents, encoded.view(), planes, document);
            const std::vector<float> vector = documents.tokens.Row(document);
            double squares = 0;
            for (size_t column = 0; column < row.size(); ++column) {
              row[column] += along * vector[column];
              squares += static_cast<double>(row[column]) * row[column];
            }
            test::RandomQuery query = test::MakeQuery(seed_, ScalarType::kF32, dim, 1);
            query.tokens.SetRow(0, row);
            const double exact = test::ExactScores(documents.view(), query)[static_cast<size_t>(document)];
            const QueryCodes codes = test::EncodedQuery(encoded.view().shape, planes, query);
            const double bound = BoundOf(encoded.view(), codes, document);
            EXPECT_GE(bound, exact);
            // The bound may exceed the score only by the rounding of the query and of the bound's F16 values.
            EXPECT_LE(bound, exact + 2.01 * codes.slack + 0.003 * std::sqrt(squares));
          }
        }
      }
    }
  }
}

// A document's bound is computed from the largest of its tokens' sums. If the bound fell while the sum rises, the score
// of a token with a smaller sum could exceed the bound.
TEST_F(CodeBoundTest, NeverFallsAsTheSumRises) {
  const test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF32, 96, {7});
  const EncodedDocuments encoded = test::Encoded(documents.view(), false);
  const float scale = encoded.view().scales[0];
  for (const int planes : {1, 2, 4}) {
    const QueryCodes query =
        test::EncodedQuery(encoded.view().shape, planes, test::MakeQuery(seed_, ScalarType::kF32, 96, 3));
    const CodeBound& bound = encoded.view().bounds[BoundIndex(planes)][0];
    const double most = query.reach * F16ToF32(bound.length) * NominalNorm(query.shape, scale) / (query.unit * scale);
    float before = UpperBound(query, 0, scale, bound);
    for (int step = 1; step <= 1000; ++step) {
      const float next = UpperBound(query, static_cast<int64_t>(most * step / 1000), scale, bound);
      ASSERT_GE(next, before) << planes << " planes, step " << step;
      before = next;
    }
    // At the largest sum, the bound is at least the score of a document vector of length 1 that points along the
    // query.
    EXPECT_GE(before, query.reach * 0.999);
  }
}

TEST_F(CodeBoundTest, HoldsForVectorsThatAreNotNormalAtAll) {
  constexpr int32_t kDim = 96;
  test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF32, kDim, {1, 1, 1, 1, 1, 3});
  std::vector<float> one(kDim, 0.0f);
  one[17] = 1;
  std::vector<float> alternating(kDim);
  for (int32_t column = 0; column < kDim; ++column) alternating[column] = column % 2 == 0 ? 1 : -1;
  std::vector<float> spike(kDim, 0.001f);
  spike[3] = 100;
  std::vector<float> unrotated(kDim, 0.0f);  // the rotation turns this vector into one with a single non-zero column
  unrotated[5] = 1;
  Unrotate(test::kCodeSeed, absl::MakeSpan(unrotated));
  const std::vector<float> rows[] = {
      one, alternating, spike, unrotated, std::vector<float>(kDim, 0.0f), std::vector<float>(kDim, 1.0f)};
  for (int64_t token = 0; token < 6; ++token) documents.tokens.SetRow(token, rows[token]);
  documents.tokens.SetRow(7, std::vector<float>(kDim, 0.0f));
  for (const std::vector<float>& query_row : rows) {
    test::RandomQuery query = test::MakeQuery(seed_, ScalarType::kF32, kDim, 2);
    query.tokens.SetRow(0, query_row);
    for (const int planes : {1, 2, 4}) {
      for (const bool factors : {false, true}) ExpectBounded(documents, query, factors, planes);
    }
  }
}

// A bound that is far too large holds as well. So this test limits how far the bound is from the score.
TEST_F(CodeBoundTest, IsNarrowerWithMorePlanes) {
  const test::RandomDocuments documents =
      test::MakeDocuments(seed_, ScalarType::kF16, 128, test::RandomLengths(seed_, 30, 5, 60));
  const test::RandomQuery query = test::MakeQuery(seed_ + 1, ScalarType::kF16, 128, 16);
  const double four = ExpectBounded(documents, query, false, 4);
  const double two = ExpectBounded(documents, query, false, 2);
  const double one = ExpectBounded(documents, query, false, 1);
  EXPECT_LT(four, 0.25);  // a bound exceeds the score by at most two residuals, of about 0.1 each
  EXPECT_LT(four, two);
  EXPECT_LT(two, one);
}

TEST_F(CodeBoundTest, EstimatesAreNearTheExactScores) {
  for (const int32_t dim : {48, 96, 128, 1000}) {
    for (const bool factors : {false, true}) {
      test::RandomDocuments documents =
          test::MakeDocuments(seed_, ScalarType::kF32, dim, test::RandomLengths(seed_, 30, 5, 40));
      if (factors) test::SpreadNorms(seed_, 5, &documents);
      const EncodedDocuments encoded = test::Encoded(documents.view(), factors);
      const test::RandomQuery query = test::MakeQuery(seed_ + 1, ScalarType::kF32, dim, 16);
      const std::vector<double> exact = test::ExactScores(documents.view(), query);
      for (const int planes : {1, 2, 4}) {
        const QueryCodes codes = test::EncodedQuery(encoded.view().shape, planes, query);
        double squares = 0;
        for (int64_t document = 0; document < 30; ++document) {
          const int64_t sum = ReferenceSumsOf(encoded.view(), codes, document).sum;
          const double error = Estimate(codes, sum, encoded.view().scales[document]) - exact[document];
          squares += error * error;
        }
        // The error for one query token is about residual / sqrt(dim). At worst, the errors of all 16 query tokens have
        // the same sign and add up.
        const double residual = planes == 1 ? 0.75 : planes == 2 ? 0.4 : 0.12;
        EXPECT_LT(std::sqrt(squares / 30), residual / std::sqrt(dim) * 16 * (factors ? 5 : 1))
            << "d " << dim << ", " << planes << " planes";
      }
    }
  }
}

TEST_F(CodeBoundTest, WindowsGiveEveryBitItsWeight) {
  for (const int32_t dim : kBoundDims) {
    const test::RandomQuery query = test::MakeQuery(seed_, ScalarType::kF32, dim, 3);
    const CodeShape shape = {.dim = dim, .originals = ScalarType::kF32, .rotation_seed = test::kCodeSeed};
    const QueryCodes codes = test::EncodedQuery(shape, 1, query);
    for (size_t token = 0; token < 3; ++token) {
      const size_t begin = token * static_cast<size_t>(CodeColumns(dim));
      std::vector<float> row = query.tokens.Row(static_cast<int64_t>(token));
      Rotate(test::kCodeSeed, absl::MakeSpan(row));
      double scale = 0;  // of a weight, by least squares
      double squares = 0;
      for (int32_t column = 0; column < dim; ++column) {
        const double weight = codes.weights[begin + column];
        scale += weight * row[column];
        squares += weight * weight;
      }
      scale /= squares;
      for (int32_t word = 0; word < CodeWords(dim); ++word) {
        for (int32_t bit = 0; bit < 32; ++bit) {
          int32_t weight = 0;
          for (int32_t t = 0; t < 8 && bit + t < 32; ++t) {
            weight += codes.elements[begin + ColumnOfBit(dim, word, bit + t)] << (7 - t);
          }
          const int32_t column = ColumnOfBit(dim, word, bit);
          if (column >= dim) {
            EXPECT_EQ(codes.weights[begin + column], 0);
            continue;
          }
          ASSERT_EQ(codes.weights[begin + column], weight) << "d " << dim << ", column " << column;
          // Weights are rounded to multiples of 128, so 64 is the largest rounding error. 16 allows for the difference
          // between the scale estimated above and the actual one.
          EXPECT_NEAR(weight, row[column] / scale, 64 + 16) << "d " << dim << ", column " << column;
        }
      }
    }
  }
}

TEST_F(CodeBoundTest, TheQuantisedQueryIsExactForI8Originals) {
  const test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kI8, 128, {4});
  const test::RandomQuery query = test::MakeQuery(seed_, ScalarType::kI8, 128, 5);
  const CodeShape shape = test::ShapeFor(documents.view(), false);
  CodeShape of_floats = shape;
  of_floats.originals = ScalarType::kF32;
  // For I8 originals, the slack (added to bounds for rounding) contains only the rounding of multipliers and of scores.
  EXPECT_LT(test::EncodedQuery(shape, 4, query).slack, 5 * 3e-5);
  EXPECT_GT(test::EncodedQuery(of_floats, 4, query).slack, 5 * 1e-3);
}

TEST_F(CodeBoundTest, QueriesOfZerosScoreNothing) {
  const test::RandomDocuments documents = test::MakeDocuments(seed_, ScalarType::kF32, 40, {4});
  const EncodedDocuments encoded = test::Encoded(documents.view(), false);
  for (const int planes : {1, 2, 4}) {
    const QueryCodes query = *EncodeQuery(encoded.view().shape, planes, std::vector<float>(80, 0.0f), {});
    const ReferenceSums sums = ReferenceSumsOf(encoded.view(), query, 0);
    EXPECT_EQ(Estimate(query, sums.sum, encoded.view().scales[0]), 0);
    EXPECT_GE(BoundOf(encoded.view(), query, 0), 0);
    EXPECT_LT(BoundOf(encoded.view(), query, 0), 1e-20);
  }
}

TEST_F(CodeBoundTest, ABoundWithoutAFiniteValueIsInfinite) {
  const test::RandomQuery query = test::MakeQuery(seed_, ScalarType::kF32, 40, 2);
  const CodeShape shape = {.dim = 40, .originals = ScalarType::kF32};
  const QueryCodes codes = test::EncodedQuery(shape, 4, query);
  constexpr uint16_t kInfinity = 0x7c00;
  constexpr uint16_t kOne = 0x3c00;
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(UpperBound(codes, 5, 1, {kInfinity, kOne, kOne, kOne}), kInfinite);
  EXPECT_EQ(UpperBound(codes, 0, 1, {kInfinity, kOne, 0, kOne}), kInfinite);
  EXPECT_EQ(UpperBound(codes, 5, 1, {kOne, kInfinity, kOne, kOne}), kInfinite);
  EXPECT_LT(UpperBound(codes, 5, 1, {kOne, kOne, kOne, kOne}), kInfinite);
}

TEST(EncodeQueryTest, SaysWhatIsWrong) {
  const CodeShape shape = {.dim = 16, .originals = ScalarType::kF16};
  const std::vector<float> rows(32, 0.5f);
  const auto message = [&](int planes, const std::vector<float>& tokens, const std::vector<float>& weights) {
    return std::string(EncodeQuery(shape, planes, tokens, weights).status().message());
  };
  EXPECT_TRUE(EncodeQuery(shape, 2, rows, {}).ok());
  EXPECT_THAT(message(3, rows, {}), HasSubstr("planes is 3; must be 1, 2 or 4"));
  EXPECT_THAT(message(2, {}, {}), HasSubstr("tokens has 0 values; must be 1 to 4096 rows of 16"));
  EXPECT_THAT(message(2, std::vector<float>(17), {}), HasSubstr("tokens has 17 values"));
  EXPECT_THAT(message(2, rows, {1}), HasSubstr("weights has 1 elements; must have none or 2"));
  EXPECT_THAT(message(2, rows, {1, 2e6f}), HasSubstr("weights[1] is 2e+06"));
  EXPECT_THAT(message(2, rows, {1, std::nanf("")}), HasSubstr("weights[1] is nan"));
  std::vector<float> bad = rows;
  bad[17] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(message(2, bad, {}), HasSubstr("row 1, column 1 is inf"));
}

}  // namespace
}  // namespace maxsim
