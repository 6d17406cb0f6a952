// The cells of a code (intervals of a coordinate's values), and the integer level that stands for each cell.
//
// The coordinates of a rotated token vector, divided by their root mean square, are nearly normally distributed. So the
// cells are those of the Lloyd-Max quantiser with 16 levels for the standard normal distribution (Lloyd 1982, Max
// 1960). They are symmetric: a cell is a sign and a magnitude cell 0 .. 7. With 2 planes, a code has only the sign and
// the highest bit of the magnitude cell (whether the magnitude is above kCellCuts[3]); with 1 plane, only the sign.
//
// Levels are integers, so that inner products with an integer query are exact. LevelUnit returns the factor by which
// levels come closest to the coordinates, for the normal distribution: E[x L] / E[L^2].
#pragma once

#include <array>
#include <cstdint>

namespace maxsim {

// The lower ends of magnitude cells 1 .. 7, in units of the coordinates' root mean square.
inline constexpr std::array<double, 7> kCellCuts = {0.25822166467071866, 0.5224037090113762, 0.799549787509712,
                                                    1.0992858269170702,  1.43713879168453,   1.8435318062766282,
                                                    2.400803398763277};

// Magnitudes of the levels. With one plane they are all 1, with two planes kLevels2. With four planes a level is an odd
// integer 2 v + 1, so that v fits INT8: v is an element h of kHalfLevels4 for a positive level, and -h - 1 for a
// negative one.
inline constexpr std::array<int32_t, 2> kLevels2 = {13, 42};
inline constexpr std::array<int32_t, 8> kHalfLevels4 = {5, 18, 30, 43, 58, 75, 96, 127};

// Returns the level of a cell in a code of 1, 2 or 4 planes. `magnitude` is 0 .. 7.
constexpr int32_t CodeLevel(int planes, bool positive, int32_t magnitude) {
  const int32_t level = planes == 1 ? 1 : planes == 2 ? kLevels2[magnitude / 4] : 2 * kHalfLevels4[magnitude] + 1;
  return positive ? level : -level;
}

// Returns the factor that turns levels into coordinates, in units of the coordinates' root mean square.
constexpr double LevelUnit(int planes) {
  return planes == 1 ? 0.7978845608028654 : planes == 2 ? 0.038218415333958436 : 0.010735900652971092;
}

}  // namespace maxsim
