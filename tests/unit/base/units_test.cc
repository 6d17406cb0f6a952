#include "base/units.h"

#include <cstdint>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maxsim {
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
    EXPECT_EQ(*ParseCount(WriteCount(value)), value);
    EXPECT_EQ(*ParseBytes(WriteBytes(value)), value);
  }
  EXPECT_EQ(WriteBytes(uint64_t{512} << 20), "512MiB");
  EXPECT_EQ(WriteCount(uint64_t{1} << 36), "64Gi");
  EXPECT_EQ(WriteCount(4096), "4096");
}

TEST(UnitsTest, CountsAndBytesAreReadable) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(-123456), "-123,456");
  EXPECT_EQ(FormatCount(INT64_MAX), "9,223,372,036,854,775,807");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1.00 MiB");
  EXPECT_EQ(FormatBytes(int64_t{1} << 40), "1.00 TiB");
  EXPECT_EQ(FormatBytes(int64_t{1} << 52), "4096.00 TiB");
  EXPECT_EQ(FormatBytesExactly(0), "0 bytes");
  EXPECT_EQ(FormatBytesExactly(1023), "1023 bytes");
  EXPECT_EQ(FormatBytesExactly(1024), "1.00 KiB (1,024 bytes)");
  EXPECT_EQ(FormatBytesExactly(uint64_t{5} << 30), "5.00 GiB (5,368,709,120 bytes)");
}

}  // namespace
}  // namespace maxsim
