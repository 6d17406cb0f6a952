#include "server/config/values.h"

#include <cstdint>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maxsim::config {
namespace {

using testing::HasSubstr;

TEST(ConfigValuesTest, SizesAreReadWithAndWithoutUnits) {
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

TEST(ConfigValuesTest, FormattedValuesReadBack) {
  for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{1023}, uint64_t{1} << 20, uint64_t{1} << 36,
                               uint64_t{10'000'000}, uint64_t{123456789}, UINT64_MAX}) {
    EXPECT_EQ(*ParseCount(FormatCount(value)), value);
    EXPECT_EQ(*ParseBytes(FormatBytes(value)), value);
  }
  EXPECT_EQ(FormatBytes(uint64_t{512} << 20), "512MiB");
  EXPECT_EQ(FormatCount(uint64_t{1} << 36), "64Gi");
  EXPECT_EQ(FormatCount(4096), "4096");
}

TEST(ConfigValuesTest, DurationsAreFiniteAndNotNegative) {
  EXPECT_EQ(*ParseDuration("0"), absl::ZeroDuration());
  EXPECT_EQ(*ParseDuration("1m30s"), absl::Seconds(90));
  for (const char* wrong : {"", "5", "-1s", "inf", "soon"}) EXPECT_FALSE(ParseDuration(wrong).ok()) << wrong;
}

TEST(ConfigValuesTest, AddressesNameHostAndPort) {
  EXPECT_EQ(ParseAddress("0.0.0.0:7070")->port, 7070);
  EXPECT_EQ(ParseAddress("[::1]:80")->host, "::1");
  EXPECT_EQ(ParseAddress("[::1]:80")->ToString(), "[::1]:80");
  EXPECT_EQ(ParseAddress("localhost:0")->ToString(), "localhost:0");
  for (const char* wrong :
       {"", "7070", ":7070", "host:", "host:65536", "host:-1", "host:+1", "::1:80", "[]:80", "[::1:80"}) {
    EXPECT_FALSE(ParseAddress(wrong).ok()) << wrong;
  }
  EXPECT_THAT(std::string(ParseAddress("nonsense").status().message()), HasSubstr("\"nonsense\" is not an address"));
}

TEST(ConfigValuesTest, OnlyNearNamesAreSuggested) {
  EXPECT_EQ(Nearest("grpc.adress", {"grpc.address", "http.address"}), "grpc.address");
  EXPECT_EQ(Nearest("frobnicate", {"grpc.address", "http.address"}), "");
}

}  // namespace
}  // namespace maxsim::config
