// Tests the place of each bit in a stored code, and the levels that codes stand for. Files and GPU kernels depend on
// both.
#include "kernels/codes/code_layout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <utility>

#include "kernels/codes/code_levels.h"

namespace maxsim {
namespace {

constexpr int32_t kLayoutDims[] = {8, 31, 32, 33, 48, 64, 96, 100, 127, 128, 129, 160, 224, 256, 384, 768, 1000, 4096};

TEST(CodeLayoutTest, RowsAreWholeWords) {
  EXPECT_EQ(PlaneRowBytes(8), 4u);
  EXPECT_EQ(PlaneRowBytes(32), 4u);
  EXPECT_EQ(PlaneRowBytes(33), 8u);
  EXPECT_EQ(PlaneRowBytes(96), 12u);
  EXPECT_EQ(PlaneRowBytes(128), 16u);
  EXPECT_EQ(FieldRowBytes(128), 32u);
  EXPECT_EQ(CodeBytes(128, 1), 16u);
  EXPECT_EQ(CodeBytes(128, 2), 32u);
  EXPECT_EQ(CodeBytes(128, 4), 64u);
  EXPECT_EQ(CodeBytes(4096, 4), 2048u);
}

TEST(CodeLayoutTest, EveryCoordinateHasItsOwnBit) {
  for (const int32_t dim : kLayoutDims) {
    SCOPED_TRACE(testing::Message() << "d " << dim);
    std::set<std::pair<int32_t, int32_t>> bits;
    std::set<std::pair<int32_t, int32_t>> fields;
    for (int32_t column = 0; column < CodeColumns(dim); ++column) {
      const BitPlace place = PlaneBit(dim, column);
      ASSERT_LT(place.byte, static_cast<int32_t>(PlaneRowBytes(dim)));
      ASSERT_LT(place.bit, 8);
      bits.insert({place.byte, place.bit});
      EXPECT_EQ(ColumnOfBit(dim, place.byte / 4, place.byte % 4 * 8 + place.bit), column);
      const BitPlace field = FieldBit(dim, column);
      ASSERT_LT(field.byte, static_cast<int32_t>(FieldRowBytes(dim)));
      ASSERT_EQ(field.bit % 2, 0);
      fields.insert({field.byte, field.bit});
    }
    EXPECT_EQ(static_cast<int32_t>(bits.size()), CodeColumns(dim));
    EXPECT_EQ(static_cast<int32_t>(fields.size()), CodeColumns(dim));
  }
}

// Lane t of four loads word t of a group. For each r of 0 to 7, the lane shifts its word by r and takes the lowest
// bit of each byte. Byte i is then operand byte 16 * (r % 2) + 4 t + i of multiplication step r / 2, as the fragments
// of tensor cores need it.
TEST(CodeLayoutTest, AWordOfAGroupIsALanesFragment) {
  for (int32_t word = 0; word < 4; ++word) {
    for (int32_t bit = 0; bit < 32; ++bit) {
      const int32_t shift = bit % 8;
      const int32_t step = shift / 2;
      EXPECT_EQ(ColumnOfBit(128, word, bit), 32 * step + 16 * (shift % 2) + 4 * word + bit / 8);
      EXPECT_EQ(ColumnOfBit(256, 4 + word, bit), 128 + ColumnOfBit(128, word, bit));
    }
  }
}

TEST(CodeLayoutTest, FieldsOfEvenBitsAreInTheFirstWord) {
  for (const int32_t dim : kLayoutDims) {
    for (int32_t word = 0; word < CodeWords(dim); ++word) {
      for (int32_t bit = 0; bit < 32; ++bit) {
        const BitPlace field = FieldBit(dim, ColumnOfBit(dim, word, bit));
        EXPECT_EQ(field.byte / 4, 2 * word + bit % 2);
        EXPECT_EQ(field.byte % 4 * 8 + field.bit, bit / 2 * 2);
      }
    }
  }
}

double Density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0)); }
double Below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// Returns the lower end of a cell. CutOf(8) is the upper end of the last cell.
double CutOf(int cell) { return cell == 0 ? 0 : cell == 8 ? 40 : kCellCuts[cell - 1]; }

// Returns the mean of a standard normal variable in cells `first` .. `last`.
double MeanOf(int first, int last) {
  const double low = CutOf(first);
  const double high = CutOf(last + 1);
  return (Density(low) - Density(high)) / (Below(high) - Below(low));
}

TEST(CodeLevelsTest, CutsAreThoseOfTheBestQuantiserOfTheNormalDistribution) {
  for (int cell = 1; cell < 8; ++cell)
    EXPECT_NEAR(CutOf(cell), (MeanOf(cell - 1, cell - 1) + MeanOf(cell, cell)) / 2, 1e-9);
}

TEST(CodeLevelsTest, LevelsAreTheMeansOfTheirCells) {
  for (int cell = 0; cell < 8; ++cell) {
    EXPECT_NEAR(CodeLevel(4, true, cell) * LevelUnit(4), MeanOf(cell, cell), LevelUnit(4) * 1.01);
    EXPECT_NEAR(CodeLevel(2, true, cell) * LevelUnit(2), MeanOf(cell / 4 * 4, cell / 4 * 4 + 3), 1e-4);
    EXPECT_NEAR(CodeLevel(1, true, cell) * LevelUnit(1), MeanOf(0, 7), 1e-9);
    for (const int planes : {1, 2, 4}) EXPECT_EQ(CodeLevel(planes, false, cell), -CodeLevel(planes, true, cell));
  }
}

// A GPU multiplies by (level - 1) / 2, which must fit into INT8.
TEST(CodeLevelsTest, HalfLevelsOfFourPlanesFitABytesMultiplication) {
  for (int cell = 0; cell < 8; ++cell) {
    for (const bool positive : {false, true}) {
      const int32_t half = (CodeLevel(4, positive, cell) - 1) / 2;
      EXPECT_EQ(half, positive ? kHalfLevels4[cell] : ~kHalfLevels4[cell]);
      EXPECT_GE(half, -128);
      EXPECT_LE(half, 127);
    }
  }
}

}  // namespace
}  // namespace maxsim
