// Tests the rotation and the rounding of I8 storage. Every backend rounds queries with these operations, so their
// exact bits are part of the contract.
#include "kernels/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "kernels/limits.h"
#include "kernels/reference.h"
#include "kernels/validate.h"
#include "tests/support/values/random_documents.h"

namespace maxsim {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kSeed = 20240611;
constexpr int32_t kDims[] = {8, 9, 15, 16, 17, 48, 96, 100, 128, 768, 1024, 4096};

std::vector<float> Row(uint64_t seed, int32_t dim) { return test::RandomTokens(seed, ScalarType::kF32, dim, 1).Row(0); }

std::vector<float> Rotated(uint64_t seed, std::vector<float> row) {
  Rotate(seed, absl::MakeSpan(row));
  return row;
}

double InnerProduct(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t idx = 0; idx < a.size(); ++idx) sum += static_cast<double>(a[idx]) * b[idx];
  return sum;
}

TEST(RotateTest, KeepsLengthsAndInnerProducts) {
  for (int32_t dim : kDims) {
    SCOPED_TRACE(testing::Message() << "d " << dim);
    const std::vector<float> a = Row(1, dim);
    const std::vector<float> b = Row(2, dim);
    const std::vector<float> rotated_a = Rotated(kSeed, a);
    const std::vector<float> rotated_b = Rotated(kSeed, b);
    // The rows have unit length, so that absolute and relative errors are the same.
    EXPECT_NEAR(InnerProduct(rotated_a, rotated_a), InnerProduct(a, a), 2e-6);
    EXPECT_NEAR(InnerProduct(rotated_a, rotated_b), InnerProduct(a, b), 2e-6);
    EXPECT_NE(rotated_a, a);
  }
}

TEST(RotateTest, SpreadsOneColumnOverAll) {
  for (int32_t dim : kDims) {
    for (int32_t column : {0, dim / 2, dim - 1}) {
      std::vector<float> row(dim, 0.0f);
      row[column] = 1;
      const std::vector<float> rotated = Rotated(kSeed, row);
      const auto largest = *std::max_element(rotated.begin(), rotated.end(),
                                             [](float a, float b) { return std::fabs(a) < std::fabs(b); });
      // If dim is a power of two, both rounds of the rotation cover all columns. The second may undo some of the
      // first's spreading, but must not gather a row in one column.
      EXPECT_LT(std::fabs(largest), 0.8f) << "d " << dim << ", column " << column;
    }
  }
}

TEST(RotateTest, DependsOnTheSeed) {
  const std::vector<float> row = Row(1, 128);
  EXPECT_EQ(Rotated(1, row), Rotated(1, row));
  EXPECT_NE(Rotated(1, row), Rotated(2, row));
  EXPECT_NE(Rotated(1, row), Rotated(uint64_t{1} << 63 | 1, row));
}

TEST(RotateTest, ZerosStayZeros) {
  for (int32_t dim : kDims) {
    EXPECT_THAT(Rotated(kSeed, std::vector<float>(dim, 0.0f)), Each(0.0f)) << "d " << dim;
  }
}

// Returns FNV-1a of the rows' bytes.
uint64_t Hash(const std::vector<float>& row) {
  uint64_t hash = 0xcbf29ce484222325;
  for (float value : row) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int byte = 0; byte < 4; ++byte) hash = (hash ^ (bits >> (8 * byte) & 0xff)) * 0x100000001b3;
  }
  return hash;
}

// Shards and clients store rotated rows, so these bits must never change. The expected numbers come from a NumPy
// program that was written from the description in kernels/quantize.h.
TEST(RotateTest, RoundsAsDescribed) {
  const auto rotated = [](uint64_t seed, int32_t dim) {
    std::vector<float> row(dim);
    for (int32_t column = 0; column < dim; ++column) row[column] = static_cast<float>(column + 1) / 7.0f;
    return Rotated(seed, row);
  };
  std::vector<uint32_t> bits;
  for (float value : rotated(1, 8)) bits.push_back(std::bit_cast<uint32_t>(value));
  EXPECT_THAT(bits, ElementsAre(0x3fa49248, 0x3f924924, 0xbedb6db3, 0xbf5b6db6, 0xbedb6db6, 0xbe924923, 0x3e124925, 0));
  EXPECT_EQ(Hash(rotated(1, 8)), 0xe674682853ba15da);
  EXPECT_EQ(Hash(rotated(2, 9)), 0x4239d41849b07a89);
  EXPECT_EQ(Hash(rotated(0x123456789abcdef, 100)), 0x9961d697b709d021);
}

// Rotates with one plain operation after another, in the order that kernels/quantize.h describes.
std::vector<float> RotatedPlainly(uint64_t seed, std::vector<float> row) {
  const auto dim = static_cast<int32_t>(row.size());
  const int32_t span = RotationSpan(dim);
  for (int32_t round = 0; round < kRotationRounds; ++round) {
    const int32_t begin = RotationBegin(dim, round);
    for (int32_t column = begin; column < begin + span; ++column) {
      if ((RotationSigns(seed, round, column / 64) >> (column % 64) & 1) != 0) row[column] = -row[column];
    }
    for (int32_t distance = 1; distance < span; distance *= 2) {
      for (int32_t column = 0; column < span; ++column) {
        if ((column & distance) != 0) continue;
        const float a = row[begin + column];
        const float b = row[begin + column + distance];
        row[begin + column] = a + b;
        row[begin + column + distance] = a - b;
      }
    }
    for (int32_t column = begin; column < begin + span; ++column) row[column] *= RotationFactor(dim);
  }
  return row;
}

TEST(RotateTest, HasTheBitsOfPlainLoops) {
  for (int32_t dim : kDims) {
    std::vector<float> row = Row(3, dim);
    row[dim / 2] = 0;
    row[dim - 1] = -0.0f;
    EXPECT_EQ(Hash(Rotated(kSeed, row)), Hash(RotatedPlainly(kSeed, row))) << "d " << dim;
  }
}

TEST(RotateTest, UnrotateIsItsInverse) {
  for (int32_t dim : kDims) {
    const std::vector<float> row = Row(4, dim);
    std::vector<float> back = Rotated(kSeed, row);
    Unrotate(kSeed, absl::MakeSpan(back));
    for (int32_t column = 0; column < dim; ++column) EXPECT_NEAR(back[column], row[column], 1e-6f) << "d " << dim;
  }
}

struct Quantized {
  std::vector<int32_t> elements;
  float scale = 0;
};

Quantized QuantizeAll(const std::vector<float>& values) {
  std::vector<int8_t> elements(values.size(), 77);
  Quantized quantized;
  quantized.scale = Quantize(values, elements.data());
  quantized.elements.assign(elements.begin(), elements.end());
  return quantized;
}

TEST(QuantizeTest, RoundsToNearestTiesToEven) {
  // The largest value makes the scale 1.
  const Quantized quantized = QuantizeAll({127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 0.75f, -0.25f, 126.5f, -125.5f});
  EXPECT_EQ(quantized.scale, 1.0f);
  EXPECT_THAT(quantized.elements, ElementsAre(127, 0, 2, 2, 0, -2, -2, 1, 0, 126, -126));
}

TEST(QuantizeTest, TheLargestMagnitudeBecomes127OfItsSign) {
  EXPECT_THAT(QuantizeAll({-3, 1}).elements, ElementsAre(-127, 42));
  EXPECT_THAT(QuantizeAll({3, -3}).elements, ElementsAre(127, -127));
  std::mt19937_64 generator(kSeed);
  std::uniform_real_distribution<float> exponent(-90, 40);
  std::uniform_real_distribution<float> value(-1, 1);
  for (int run = 0; run < 20000; ++run) {
    const float largest = std::copysign(std::exp2(exponent(generator)), value(generator));
    const Quantized quantized = QuantizeAll({largest, -largest, largest * value(generator)});
    const int32_t expected = std::signbit(largest) ? -127 : 127;
    ASSERT_EQ(quantized.elements[0], expected) << largest;
    ASSERT_EQ(quantized.elements[1], -expected) << largest;
    ASSERT_LE(std::abs(quantized.elements[2]), 127);
    ASSERT_FLOAT_EQ(quantized.scale, std::fabs(largest) / 127);
  }
}

TEST(QuantizeTest, VerySmallValuesAreZeros) {
  const float below = std::nextafter(kMinQuantizedMagnitude, 0.0f);
  for (const std::vector<float>& values : {std::vector<float>{0, 0}, {0.0f, -0.0f}, {below, -below}, {1e-45f, 0}}) {
    const Quantized quantized = QuantizeAll(values);
    EXPECT_EQ(std::bit_cast<uint32_t>(quantized.scale), 0u);
    EXPECT_THAT(quantized.elements, ElementsAre(0, 0));
  }
  const Quantized at = QuantizeAll({kMinQuantizedMagnitude, -kMinQuantizedMagnitude / 2});
  EXPECT_EQ(at.scale, kMinQuantizedMagnitude / 127);
  EXPECT_THAT(at.elements, ElementsAre(127, -64));
}

TEST(QuantizeTest, ADocumentHasOneScale) {
  for (int32_t dim : {8, 100}) {
    const test::TokenMatrix rows = test::RandomTokens(3, ScalarType::kF32, dim, 5);
    std::vector<float> document;
    std::vector<float> rotated;
    for (int64_t token = 0; token < 5; ++token) {
      const std::vector<float> row = rows.Row(token);
      const std::vector<float> rotated_row = Rotated(kSeed, row);
      document.insert(document.end(), row.begin(), row.end());
      rotated.insert(rotated.end(), rotated_row.begin(), rotated_row.end());
    }
    std::vector<int8_t> elements(document.size());
    const float scale = QuantizeDocument(kSeed, dim, absl::MakeSpan(document), elements.data());
    EXPECT_EQ(document, rotated);
    const Quantized expected = QuantizeAll(rotated);
    EXPECT_EQ(scale, expected.scale);
    EXPECT_TRUE(std::equal(elements.begin(), elements.end(), expected.elements.begin()));
  }
}

TEST(QuantizeTest, AQueryHasAScaleATokenAndKeepsItsRows) {
  for (int32_t dim : {8, 9, 128}) {
    test::TokenMatrix rows = test::RandomTokens(4, ScalarType::kF32, dim, 3);
    rows.SetRow(1, std::vector<float>(dim, 0.0f));
    const test::TokenMatrix before = rows;
    std::vector<int8_t> elements(3 * dim, 77);
    std::vector<float> scales(3, -1);
    QuantizeQuery(kSeed, dim, static_cast<const float*>(rows.data()), elements.data(), absl::MakeSpan(scales));
    for (int64_t token = 0; token < 3; ++token) {
      EXPECT_EQ(rows.Row(token), before.Row(token));
      const Quantized expected = QuantizeAll(Rotated(kSeed, rows.Row(token)));
      EXPECT_EQ(scales[token], expected.scale);
      EXPECT_TRUE(std::equal(expected.elements.begin(), expected.elements.end(), elements.begin() + token * dim));
    }
    EXPECT_EQ(scales[1], 0);
  }
}

// Scores the documents before and after conversion to I8. Returns the largest difference of two scores, divided by the
// number of query tokens. Tokens have unit length, so each similarity is at most 1.
double LargestError(const test::RandomDocuments& documents, const test::RandomQuery& query) {
  const test::RandomDocuments quantized = test::Stored(documents, ScalarType::kI8);
  const std::vector<ReferenceScore> expected = ReferenceScores(documents.view(), query.view(1));
  const std::vector<ReferenceScore> actual = ReferenceScores(quantized.view(), query.view(1));
  double error = 0;
  for (size_t idx = 0; idx < expected.size(); ++idx) {
    error = std::max(error, std::fabs(actual[idx].score - expected[idx].score));
  }
  return error / static_cast<double>(query.tokens.num_tokens());
}

TEST(QuantizeTest, ScoresStayClose) {
  for (int32_t dim : {8, 9, 48, 96, 100, 128, 768}) {
    const test::RandomDocuments documents =
        test::MakeDocuments(5, ScalarType::kF32, dim, test::RandomLengths(6, 30, 1, 60));
    EXPECT_LT(LargestError(documents, test::MakeQuery(7, ScalarType::kF32, dim, 32)), 0.005) << "d " << dim;
  }
}

// One column is twenty times as large as the others. Without the rotation it would take most of the INT8 range, and the
// other columns would lose precision.
TEST(QuantizeTest, ScoresStayCloseWithALargeColumn) {
  test::RandomDocuments documents = test::MakeDocuments(5, ScalarType::kF32, 128, test::RandomLengths(6, 30, 1, 60));
  for (int64_t token = 0; token < documents.tokens.num_tokens(); ++token) {
    std::vector<float> row = documents.tokens.Row(token);
    row[17] *= 20;
    const auto length = static_cast<float>(std::sqrt(InnerProduct(row, row)));
    for (float& value : row) value /= length;
    documents.tokens.SetRow(token, row);
  }
  EXPECT_LT(LargestError(documents, test::MakeQuery(7, ScalarType::kF32, 128, 32)), 0.005);
}

TEST(ValidateTest, I8DocumentsAloneHaveScales) {
  const test::RandomDocuments quantized = test::MakeDocuments(1, ScalarType::kI8, 16, {2, 3});
  DocumentsView view = quantized.view();
  EXPECT_TRUE(ValidateDocuments(view).ok());
  view.scales = nullptr;
  EXPECT_THAT(std::string(ValidateDocuments(view).message()), HasSubstr("documents.scales is null for i8"));
  for (ScalarType type : {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16}) {
    const test::RandomDocuments documents = test::MakeDocuments(1, type, 16, {2, 3});
    view = documents.view();
    EXPECT_TRUE(ValidateDocuments(view).ok());
    view.scales = quantized.scales.data();
    EXPECT_THAT(std::string(ValidateDocuments(view).message()), HasSubstr("documents.scales is set for "));
  }
  EXPECT_TRUE(ValidateDocuments({.type = ScalarType::kI8, .dim = 16}).ok()) << "no document needs no scale";
}

}  // namespace
}  // namespace maxsim
