// Tests which requests count as one client's.
#include <gtest/gtest.h>

#include "server/service/call/client_of.h"

namespace maxsim::service {
namespace {

TEST(ClientOfTest, TheValueNamesAClientWhereverItCallsFrom) {
  EXPECT_EQ(ClientOf("shop", "ipv4:10.0.0.7:1"), ClientOf("shop", "ipv4:10.0.0.8:2"));
  EXPECT_NE(ClientOf("shop", "ipv4:10.0.0.7:1"), ClientOf("search", "ipv4:10.0.0.7:1"));
}

TEST(ClientOfTest, WithoutAValueTheAddressDoesAndNotThePort) {
  EXPECT_EQ(ClientOf("", "ipv4:10.0.0.7:1234"), ClientOf("", "ipv4:10.0.0.7:56"));
  EXPECT_NE(ClientOf("", "ipv4:10.0.0.7:1234"), ClientOf("", "ipv4:10.0.0.71:1234"));
  EXPECT_EQ(ClientOf("", "ipv6:%5B2001:db8::1%5D:1234"), ClientOf("", "ipv6:%5B2001:db8::1%5D:5"));
  EXPECT_NE(ClientOf("", "ipv6:%5B2001:db8::1%5D:1234"), ClientOf("", "ipv6:%5B2001:db8::2%5D:1234"));
  EXPECT_EQ(ClientOf("", "unix:"), ClientOf("", "unix:"));
}

TEST(ClientOfTest, AnAddressIsTheSameOverHttpWhichTellsNoPort) {
  EXPECT_EQ(ClientOf("", "ipv4:10.0.0.7:1234"), ClientOf("", "10.0.0.7"));
  EXPECT_EQ(ClientOf("", "ipv6:%5B2001:db8::1%5D:1234"), ClientOf("", "2001:db8::1"));
}

TEST(ClientOfTest, AValueIsNotAnAddress) { EXPECT_NE(ClientOf("10.0.0.7", ""), ClientOf("", "10.0.0.7")); }

TEST(ClientOfTest, AnyTextIsAPeer) {
  for (const char* peer : {"", "ipv4:", "ipv6:", "ipv6:%5B", "ipv4::", "ipv6:%5B%5D:", ":", "uds"}) ClientOf("", peer);
}

}  // namespace
}  // namespace maxsim::service
