#include "server/units.h"

#include <cstdint>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maxsim::units {
namespace {

TEST(UnitsTest, SizesAreReadWithAndWithoutUnits) {
  EXPECT_EQ(*ParseBytes("0"), 0u);
  EXPECT_EQ(*ParseBytes("17"), 17u);
  EXPECT_EQ(*ParseBytes("17B"), 17u);
  EXPECT_EQ(*ParseBytes("3kB"), 3000u);
  EXPECT_EQ(*ParseBytes("4 GiB"), uint64_t{4} << 30);
  EXPECT_EQ(*ParseBytes("1.5GiB"), uint64_t{3} << 29);
  for (const char* wrong :
       {"", "GiB", "1XiB", "-1", "1.3B", "1..2GiB", "4Gi", "99999999999TiB", "18446744073709551616"}) {
    EXPECT_FALSE(ParseBytes(wrong).ok()) << wrong;
  }
}

TEST(UnitsTest, FormattedValuesReadBack) {
  for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{1023}, uint64_t{1} << 20, uint64_t{1} << 36,
                               uint64_t{10'000'000}, uint64_t{123456789}, UINT64_MAX}) {
    EXPECT_EQ(*ParseCount(FormatCount(value)), value);
    EXPECT_EQ(*ParseBytes(FormatBytes(value)), value);
  }
  EXPECT_EQ(FormatBytes(uint64_t{512} << 20), "512MiB");
  EXPECT_EQ(FormatCount(uint64_t{1} << 36), "64Gi");
  EXPECT_EQ(FormatCount(4096), "4096");
}

}  // namespace
}  // namespace maxsim::units
