#include "server/config/values.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maxsim::config {
namespace {

using testing::HasSubstr;

TEST(ConfigValuesTest, DurationsAreFiniteAndNotNegative) {
  EXPECT_EQ(*ParseDuration("0"), absl::ZeroDuration());
  EXPECT_EQ(*ParseDuration("1m30s"), absl::Seconds(90));
  for (const char* wrong : {"", "5", "-1s", "inf", "soon"}) EXPECT_FALSE(ParseDuration(wrong).ok()) << wrong;
}

TEST(ConfigValuesTest, NumbersAreDigitsWithAPointAtMost) {
  EXPECT_DOUBLE_EQ(*ParseNumber("0"), 0);
  EXPECT_DOUBLE_EQ(*ParseNumber("0.25"), 0.25);
  EXPECT_DOUBLE_EQ(*ParseNumber("1"), 1);
  for (const char* wrong : {"", ".", "1.2.3", "-1", "+1", "nan", "inf", "1e3", "0x10", "20%", " 1", "0,5"}) {
    EXPECT_FALSE(ParseNumber(wrong).ok()) << wrong;
  }
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
